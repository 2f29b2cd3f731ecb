# Each target is one command of tools/course.py, which works without make as well.
PYTHON ?= python3

.PHONY: help site serve test lab notebooks check evidence catalogue grade-demo hostile bench lock colab pdf audit

help:
	@$(PYTHON) tools/course.py --help

site serve lab check bench grade-demo hostile pdf:
	@$(PYTHON) tools/course.py $@

# make test            everything        make test ONLY="tests/unit -k causal"
# make notebooks       run all again     make notebooks ONLY=03     make notebooks SEED_SHIFT=1   (writes nothing)
# make catalogue       all known mistakes                            make catalogue ONLY=masks
# make audit           every page; an hour and more                  make audit ONLY="notebooks/03 --runs 1"
test notebooks evidence catalogue colab audit:
	@$(PYTHON) tools/course.py $@ $(ONLY)

# Write the versions of this environment into requirements.txt and requirements-site.txt.
lock:
	@.venv/bin/python -m tools.lock
