"""Submissions that take more than there is: processes, memory, output, files, values without end."""

from .notebook import ATTACKED, NOTHING, RIGHT, Notebook, Targets, code, spoilt


@spoilt(loses=NOTHING)
def fork_bomb(notebook: Notebook, _: Targets) -> None:
    """forks as often as it can"""
    notebook.insert(
        code("""
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
    """)
    )


@spoilt(loses=NOTHING, may_lose=ATTACKED, rare=True)
def forked_answer(notebook: Notebook, _: Targets) -> None:
    """answers twice: from its process and from a copy of it"""
    notebook.answer(
        code("""
        import os
    """)
        + RIGHT.replace("attend", "honest")
        + code("""
        def attend(x, w_q, w_k, w_v):
            os.fork()
            return honest(x, w_q, w_k, w_v)
    """)
    )


@spoilt(loses=NOTHING, rare=True)
def many_threads(notebook: Notebook, _: Targets) -> None:
    """starts thousands of threads"""
    notebook.insert(
        code("""
        import threading, time
        for _ in range(10_000):
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    """)
    )


@spoilt(loses=NOTHING)
def process_left_behind(notebook: Notebook, targets: Targets) -> None:
    """starts a program in a session of its own, that would outlive it"""
    notebook.insert(
        code(f"""
        import subprocess, sys
        program = [sys.executable, '-c', 'import time; time.sleep(600)', {targets.marker!r}]
        subprocess.Popen(program, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    """)
    )


@spoilt()
def memory_in_answer(notebook: Notebook, _: Targets) -> None:
    """takes all memory in an answer"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            kept = []
            while True:
                kept.append(torch.ones(10**7))
    """)
    )


@spoilt(loses=NOTHING, rare=True)
def memory_in_cell(notebook: Notebook, _: Targets) -> None:
    """takes all memory in a cell of its own"""
    notebook.insert(
        code("""
        kept = []
        while True:
            kept.append(bytearray(10**7))
    """)
    )


@spoilt(loses=NOTHING, may_lose=ATTACKED)
def giant_output(notebook: Notebook, _: Targets) -> None:
    """prints hundreds of megabytes, in a cell and in an answer"""
    notebook.insert("for _ in range(200):\n    print('x' * 10**6)")
    notebook.answer(
        RIGHT
        + code("""
            # unreachable
        honest = attend
        def attend(x, w_q, w_k, w_v):
            print('y' * 10**7)
            return honest(x, w_q, w_k, w_v)
    """)
    )


@spoilt()
def giant_tensor(notebook: Notebook, _: Targets) -> None:
    """returns a tensor of a gigabyte that takes no memory where it is"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            return torch.zeros(1).expand(2, 5, 10**8)
    """)
    )


@spoilt(rare=True)
def giant_list(notebook: Notebook, _: Targets) -> None:
    """returns a list of ten million numbers"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            return [0] * 10**7
    """)
    )


@spoilt(rare=True)
def deep_value(notebook: Notebook, _: Targets) -> None:
    """returns a value of a hundred thousand lists, one in another"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            value = []
            for _ in range(10**5):
                value = [value]
            return value
    """)
    )


@spoilt(rare=True)
def endless_value(notebook: Notebook, _: Targets) -> None:
    """returns a list that holds itself"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            value = []
            value.append(value)
            return value
    """)
    )


@spoilt(rare=True)
def giant_error(notebook: Notebook, _: Targets) -> None:
    """raises an exception whose text is a hundred megabytes long"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            raise ValueError('z' * 10**8)
    """)
    )


@spoilt(loses=NOTHING, rare=True)
def giant_file(notebook: Notebook, _: Targets) -> None:
    """fills the disk"""
    notebook.insert(
        code("""
        import itertools
        for number in itertools.count():
            try:
                with open(f'/tmp/{number}', 'wb') as file:
                    file.write(bytes(10**7))
            except OSError:
                break
    """)
    )


@spoilt(rare=True)
def odd_tensors(notebook: Notebook, _: Targets) -> None:
    """returns tensors of odd kinds: sparse, complex, quantised, on no device"""
    notebook.answer(
        code("""
        import itertools
        turn = itertools.count()
        def attend(x, w_q, w_k, w_v):
            kinds = (lambda: x.to_sparse(), lambda: x.to(torch.complex64), lambda: x.to('meta'),
                     lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
                     lambda: torch.nested.nested_tensor([x]))
            return kinds[next(turn) % len(kinds)]()
    """)
    )
