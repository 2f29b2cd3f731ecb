#!/usr/bin/env bash
# Gradescope runs this once, as root, when the autograder is built: the sandbox, Python, the course.
set -euo pipefail
cd /autograder/source
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq bubblewrap curl ca-certificates python3 python3-venv

# The course needs Python 3.11. Where the system's is older, uv brings one.
if python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    python3 -m venv /autograder/venv
else
    python3 -m venv /autograder/uv
    /autograder/uv/bin/pip install --quiet uv
    UV_PYTHON_INSTALL_DIR=/autograder/python /autograder/uv/bin/uv venv --seed --python 3.11 /autograder/venv
fi
pip=/autograder/venv/bin/pip
$pip install --quiet --index-url https://download.pytorch.org/whl/cpu "torch==@TORCH@"
$pip install --quiet --constraint requirements.txt ./course
