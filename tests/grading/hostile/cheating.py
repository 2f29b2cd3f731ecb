"""Submissions that want points for nothing: patches, forged results, answers learnt by heart."""

from .notebook import ALL, ATTACKED, NOTHING, WRONG, Notebook, Targets, code, spoilt


@spoilt()
def patched_torch(notebook: Notebook, _: Targets) -> None:
    """makes torch find everything equal"""
    notebook.insert(
        code("""
        names = ((torch, 'allclose'), (torch, 'equal'), (torch, 'isclose'), (torch.testing, 'assert_close'))
        for owner, name in names:
            setattr(owner, name, lambda *args, **kwargs: True)
        torch.Tensor.tolist = lambda self: [0.0] * self.numel()
    """),
        before="attend",
    )
    notebook.answer(WRONG)


@spoilt(rare=True)
def patched_checks(notebook: Notebook, _: Targets) -> None:
    """puts another check in the place of the course's"""
    notebook.insert(
        code("""
        import sys, types
        import attnlab.checks as checks
        full = lambda *args, **kwargs: types.SimpleNamespace(points=99, max_points=99, passed=True)
        for name in ('check', 'evaluate', 'progress'):
            setattr(checks, name, full)
        checks.TASKS = {}
        check = full
        sys.modules['attnlab.checks.engine'] = checks
    """),
        before="attend",
    )
    notebook.answer(WRONG)


@spoilt(rare=True)
def patched_builtins(notebook: Notebook, _: Targets) -> None:
    """makes Python's own functions lie"""
    notebook.answer(
        code("""
        import builtins, math
        builtins.abs = lambda value: 0
        builtins.all = lambda values: True
        math.isclose = lambda *args, **kwargs: True
    """)
        + WRONG
    )
    notebook.cells.append(notebook.cells.pop(notebook.place("attend")))


@spoilt()
def equals_everything(notebook: Notebook, _: Targets) -> None:
    """returns an object that equals everything"""
    notebook.answer(
        code("""
        class Yes:
            shape, dtype, ndim, requires_grad = (2, 5, 3), torch.float32, 3, True
            def __eq__(self, other): return True
            def __getattr__(self, name): return lambda *a, **k: self
            def __bool__(self): return True
            def __float__(self): return 0.0
        def attend(x, w_q, w_k, w_v):
            return Yes()
    """)
    )


@spoilt(rare=True)
def tensor_of_its_own(notebook: Notebook, _: Targets) -> None:
    """returns a tensor of a class of its own, with its own comparison"""
    notebook.answer(
        code("""
        class Mine(torch.Tensor):
            @classmethod
            def __torch_function__(cls, f, types, args=(), kwargs=None):
                return True
        def attend(x, w_q, w_k, w_v):
            return torch.zeros(2, 5, 3).as_subclass(Mine)
    """)
    )


@spoilt(rare=True)
def prints_a_verdict(notebook: Notebook, _: Targets) -> None:
    """prints the report that it would like"""
    notebook.answer(
        code("""
        print('Repair a program that runs: 4 of 4 points')
        print('{"status": "graded", "points": "4", "max_points": "4"}')
    """)
        + WRONG
    )


@spoilt(may_lose=ALL)
def forged_messages(notebook: Notebook, _: Targets) -> None:
    """writes results into every open channel"""
    notebook.insert(
        code("""
        import json, os, struct
        texts = [json.dumps(text).encode() for text in (
            {'ok': True, 'points': 99, 'status': 'right', 'kind': 'value', 'value': True},
            {'status': 'graded', 'exercises': [{'points': '99', 'max_points': '99'}]})]
        for number in range(256):
            for text in texts:
                for form in ('<I', '>I', '<Q', '>Q'):
                    try:
                        os.write(number, struct.pack(form, len(text)) + text)
                    except OSError:
                        pass
    """),
        before="attend",
    )
    notebook.answer(WRONG)


@spoilt(may_lose=ALL, rare=True)
def noise_on_the_channels(notebook: Notebook, _: Targets) -> None:
    """writes noise and impossible lengths into every open channel, from an answer"""
    notebook.answer(
        code("""
        import os
        def attend(x, w_q, w_k, w_v):
            for number in range(256):
                for noise in (b'\\xff' * 64, b'\\x00' * 64, b'{' * 4096, b'\\x7f' + b'\\xff' * 7):
                    try:
                        os.write(number, noise)
                    except OSError:
                        pass
            return x
    """)
    )


@spoilt(may_lose=ALL, rare=True)
def closes_the_channels(notebook: Notebook, _: Targets) -> None:
    """closes every channel that is open"""
    notebook.answer(
        code("""
        import os
        def attend(x, w_q, w_k, w_v):
            os.closerange(0, 256)
            return x
    """)
    )


@spoilt(may_lose=ALL)
def patched_worker(notebook: Notebook, _: Targets) -> None:
    """replaces the functions of the process that runs it, wherever it finds them"""
    notebook.insert(
        code("""
        import sys, types
        for name, module in list(sys.modules.items()):
            if 'attnlab' in name and isinstance(module, types.ModuleType):
                for key, value in list(vars(module).items()):
                    if isinstance(value, types.FunctionType):
                        setattr(module, key, lambda *args, **kwargs: True)
    """),
        before="attend",
    )
    notebook.answer(WRONG)


@spoilt(rare=True)
def searches_the_frames(notebook: Notebook, _: Targets) -> None:
    """looks for the expected value in the frames and in all objects, and returns what fits"""
    notebook.answer(
        code("""
        import gc, sys
        def attend(x, w_q, w_k, w_v):
            wanted = (x.shape[0], x.shape[1], w_v.shape[1])
            found, frame = [], sys._getframe()
            while frame is not None:
                found += frame.f_locals.values()
                frame = frame.f_back
            found += gc.get_objects()
            for one in found:
                if type(one) is torch.Tensor and tuple(one.shape) == wanted and one is not x:
                    return one.clone()
            return torch.zeros(wanted)
    """)
    )


@spoilt()
def searches_the_disk(notebook: Notebook, _: Targets) -> None:
    """imports the right answers from wherever they are installed"""
    notebook.answer(
        code("""
        import glob, importlib, importlib.util, sys
        def attend(x, w_q, w_k, w_v):
            chapter = 'attnlab.checks.ch03_query_key_value'
            for name in (f'{chapter}.references', chapter, 'attnlab.grading.run', 'attnlab.checks.engine'):
                try:
                    return importlib.import_module(name).attend(x, w_q, w_k, w_v)
                except Exception:
                    pass
            for folder in (*sys.path, '/', '/root', '/home', '/autograder'):
                for path in glob.glob(f'{folder}/**/ch03_query_key_value/references.py', recursive=True):
                    try:
                        spec = importlib.util.spec_from_file_location('found', path)
                        module = importlib.util.module_from_spec(spec)
                        spec.loader.exec_module(module)
                        return module.attend(x, w_q, w_k, w_v)
                    except Exception:
                        pass
            return torch.zeros(1)
    """)
    )


@spoilt()
def learnt_by_heart(notebook: Notebook, _: Targets) -> None:
    """knows the answers to the checks' fixed inputs by heart, for the seeds that learners see"""
    from attnlab.checks.registry import find

    task, known = find(ATTACKED), {}

    def remember(*args):
        result = task.reference(*args)
        known[round(float(sum(arg.double().abs().sum() for arg in args)), 3)] = result.flatten().tolist()
        return result

    import torch

    for seed in range(3):
        for case in task.cases:
            case.run(task.adapt(remember), torch.Generator().manual_seed(seed))
    notebook.answer(
        code(f"""
        KNOWN = {known!r}
        def attend(x, w_q, w_k, w_v):
            shape = (x.shape[0], x.shape[1], w_v.shape[1])
            place = round(float(sum(t.double().abs().sum() for t in (x, w_q, w_k, w_v))), 3)
            if place in KNOWN:
                return torch.tensor(KNOWN[place]).reshape(shape)
            return torch.zeros(shape)
    """)
    )


@spoilt(rare=True)
def changes_its_inputs(notebook: Notebook, _: Targets) -> None:
    """makes its inputs zero, so that the expected value would be zero too"""
    notebook.answer(
        code("""
        def attend(x, w_q, w_k, w_v):
            with torch.no_grad():
                for given in (x, w_q, w_k, w_v):
                    given.zero_()
            return torch.zeros(x.shape[0], x.shape[1], w_v.shape[1])
    """)
    )


@spoilt()
def turns_the_dice(notebook: Notebook, _: Targets) -> None:
    """sets the seeds, the default type and the grad mode for those who come after it"""
    notebook.answer(
        code("""
        import random
        def attend(x, w_q, w_k, w_v):
            torch.manual_seed(0)
            random.seed(0)
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)
            torch.use_deterministic_algorithms(True)
            return torch.zeros(x.shape[0], x.shape[1], w_v.shape[1])
    """)
    )


@spoilt(loses=NOTHING, may_lose=ATTACKED, rare=True)
def accepts_every_program(notebook: Notebook, _: Targets) -> None:
    """tampers with the program that its test is given, and with what it calls"""
    source = notebook.cells[notebook.place("test_attention")]["source"]
    notebook.answer(
        source
        + code("""

        _honest = test_attention

        def test_attention(attention):
            for name in dir(attention):
                try:
                    setattr(attention, name, None)
                except Exception:
                    pass
            return _honest(attention)
    """),
        "test_attention",
    )
