"""How much a submission may use: time, memory, processes, and the size of what it sends."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one submission may use.

    Attributes:
        file_bytes: size of the submission's file.
        start_seconds: until the worker has imported torch, wall clock; a busy machine needs patience.
        cell_seconds: for each of its cells.
        training_seconds: for the cell that makes an answer which takes training, such as lesson 9's project.
        exercise_seconds: for all calls of one exercise, counted like a check in the notebook: a busy machine
            does not fail a good answer; the wall clock ends it at ten times this.
        total_seconds: for the whole submission, wall clock.
        cpu_seconds: CPU time of one worker, which the kernel holds.
        memory_bytes: memory of the worker and all that it starts, beyond what an idle worker takes.
        file_size_bytes: of any file that it writes.
        scratch_bytes: of its private folder for scratch.
        processes: how many processes and threads it may have at a time, the worker's own included.
        message_bytes: of one message from the worker; a larger return value is refused.
    """

    file_bytes: int = 20 * MIB
    start_seconds: float = 120.0
    cell_seconds: float = 20.0
    training_seconds: float = 180.0
    exercise_seconds: float = 10.0
    total_seconds: float = 900.0
    cpu_seconds: int = 400
    memory_bytes: int = 1536 * MIB
    file_size_bytes: int = 16 * MIB
    scratch_bytes: int = 32 * MIB
    processes: int = 48
    message_bytes: int = 32 * MIB
