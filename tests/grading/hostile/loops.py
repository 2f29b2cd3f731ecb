"""Submissions that do not come to an end, or end what they should not."""

from .notebook import ATTACKED, NOTHING, RIGHT, Notebook, Targets, code, spoilt

HEAD = "def attend(x, w_q, w_k, w_v):\n"


@spoilt()
def loop_in_answer(notebook: Notebook, _: Targets) -> None:
    """loops for ever in an answer"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            while True:
                pass
    """)
    )


@spoilt(rare=True)
def loop_that_swallows_in_answer(notebook: Notebook, _: Targets) -> None:
    """loops in an answer and swallows whatever interrupts it"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            while True:
                try:
                    while True: pass
                except BaseException: pass
    """)
    )


@spoilt(loses=NOTHING, rare=True)
def loop_in_cell(notebook: Notebook, _: Targets) -> None:
    """loops for ever in a cell of its own"""
    notebook.insert("while True:\n    pass")


@spoilt(loses=NOTHING)
def loop_that_swallows_in_cell(notebook: Notebook, _: Targets) -> None:
    """loops in a cell and swallows whatever interrupts it"""
    notebook.insert(
        code("""
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass
    """)
    )


@spoilt()
def loop_in_c(notebook: Notebook, _: Targets) -> None:
    """computes 9 ** 9 ** 9, which no exception interrupts"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            return 9 ** 9 ** 9
    """)
    )


@spoilt(rare=True)
def sleep(notebook: Notebook, _: Targets) -> None:
    """sleeps for a year"""
    notebook.answer(
        code("""
        import time
        def attend(x, w_q, w_k, w_v):
            time.sleep(3e7)
    """)
    )


@spoilt(rare=True)
def recursion(notebook: Notebook, _: Targets) -> None:
    """recurses until the stack of its process bursts"""
    notebook.answer(
        code("""
        import sys, threading
        sys.setrecursionlimit(10**9)
        def attend(x, w_q, w_k, w_v):
            return attend([x], w_q, w_k, w_v)
    """)
    )


@spoilt(rare=True)
def crash(notebook: Notebook, _: Targets) -> None:
    """reads the address 0"""
    notebook.answer(
        code("""
        import ctypes
        def attend(x, w_q, w_k, w_v):
            return ctypes.string_at(0)
    """)
    )


@spoilt()
def exit_in_answer(notebook: Notebook, _: Targets) -> None:
    """ends its process in an answer"""
    notebook.answer(
        code("""
        import os
        def attend(x, w_q, w_k, w_v):
            os._exit(0)
    """)
    )


@spoilt(loses=NOTHING, rare=True)
def exit_in_cell(notebook: Notebook, _: Targets) -> None:
    """ends its process in a cell of its own"""
    notebook.insert("import os\nos._exit(0)")


@spoilt(loses=NOTHING, rare=True)
def polite_exit_in_cell(notebook: Notebook, _: Targets) -> None:
    """raises SystemExit and KeyboardInterrupt in cells of its own"""
    notebook.insert("import sys\nsys.exit(0)")
    notebook.insert("raise KeyboardInterrupt")
    notebook.insert("exit()")


@spoilt()
def signals(notebook: Notebook, _: Targets) -> None:
    """ignores every signal, then loops"""
    notebook.insert(
        code("""
        import signal
        for number in range(1, 64):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
    """)
    )
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            while True:
                pass
    """)
    )


@spoilt(loses=NOTHING, may_lose=ATTACKED)
def kills(notebook: Notebook, _: Targets) -> None:
    """kills its parent, its group and every process that it can see"""
    notebook.insert(
        code("""
        import os, signal
        for number in (os.getppid(), 1, 2, -1):
            try:
                os.kill(number, signal.SIGKILL)
            except OSError:
                pass
        try:
            os.killpg(0, signal.SIGKILL)
        except OSError:
            pass
    """)
    )


@spoilt()
def waits_for_input(notebook: Notebook, _: Targets) -> None:
    """asks for input, in a cell and in an answer"""
    notebook.insert("name = input('Your name? ')")
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            return input()
    """)
    )


@spoilt(loses=NOTHING)
def threads_left_behind(notebook: Notebook, _: Targets) -> None:
    """leaves threads behind that never end"""
    notebook.insert(
        code("""
        import threading, time
        def forever():
            while True:
                time.sleep(0.01)
        for _ in range(8):
            threading.Thread(target=forever).start()
    """)
    )


@spoilt(loses=NOTHING, rare=True)
def at_exit(notebook: Notebook, _: Targets) -> None:
    """leaves a function behind that loops when its process ends"""
    notebook.insert(
        code("""
        import atexit
        def never():
            while True:
                pass
        atexit.register(never)
    """)
    )


@spoilt(loses=NOTHING, rare=True)
def raises_everything(notebook: Notebook, _: Targets) -> None:
    """raises odd exceptions in cells of its own"""
    notebook.insert(
        code("""
        class Mine(BaseException):
            def __str__(self): raise self
        raise Mine
    """)
    )
    notebook.insert("raise GeneratorExit")
    notebook.insert("1 / 0")
    notebook.insert("def broken(:")


@spoilt(loses=NOTHING, may_lose=ATTACKED, rare=True)
def right_but_slow_to_import(notebook: Notebook, _: Targets) -> None:
    """loops in the same cell as a right answer, after it"""
    notebook.answer(
        RIGHT
        + code("""

        while True:
            pass
    """)
    )
