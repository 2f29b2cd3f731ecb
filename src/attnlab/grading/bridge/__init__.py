"""The bridge between the grader and a worker in the sandbox; both run this code, the worker a copy of it.

Each side calls functions of the other with tensors, numbers, texts and modules as arguments, and gradients
flow back. What travels is JSON and raw numbers, never pickle. The side in the sandbox is in a learner's
hands: the grader's side believes nothing that it sends, and lets it do no more than call what it was given.
"""
