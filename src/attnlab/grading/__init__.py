"""The instructor's side: grade a class's notebooks in a sandbox, with the checks that learners see."""

from .budget import Limits
from .results import CaseOutcome, ExerciseResult, SubmissionResult

__all__ = ["CaseOutcome", "ExerciseResult", "Limits", "SubmissionResult"]
