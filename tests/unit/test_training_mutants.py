"""Break the training code line by line: its tests must notice every time."""

import pytest

import attnlab.training.checkpoint
import attnlab.training.loop
import attnlab.training.losses
import attnlab.training.optimizer_state
import attnlab.training.schedules
import attnlab.training.storage
from tests.unit.mutants import Mutants

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
LOSSES = [
    ("self.total / self.num_tokens.clamp(min=1)", "self.total / self.num_tokens"),
    ("self.total / self.num_tokens.clamp(min=1)", "self.total / self.num_tokens.clamp(min=2)"),
    (
        "real = targets != pad  # (…)\n    _check_targets(targets[real], num_classes)\n    if",
        "real = targets >= 0\n    if",
    ),
    ("if logits.dtype in (torch.float16, torch.bfloat16):", "if logits.dtype == torch.float16:"),
    ("if logits.dtype in (torch.float16, torch.bfloat16):", "if True:"),
    ("logits[real].log_softmax(dim=-1)", "logits[real].log_softmax(dim=0)"),
    ("logits[real].log_softmax(dim=-1)", "logits[real].softmax(dim=-1).log()"),
    ("logits[real].log_softmax(dim=-1)", "(logits[real].softmax(dim=-1) + 1e-9).log()"),
    ("each = -(1 - label_smoothing) * of_target", "each = -of_target"),
    ("each = -(1 - label_smoothing) * of_target", "each = -(1 + label_smoothing) * of_target"),
    ("each - label_smoothing * log_p.mean(dim=-1)", "each + label_smoothing * log_p.mean(dim=-1)"),
    ("each - label_smoothing * log_p.mean(dim=-1)", "each - label_smoothing * log_p.sum(dim=-1)"),
    ("each - label_smoothing * log_p.mean(dim=-1)", "each - label_smoothing * log_p[:, 1:].mean(dim=-1)"),
    ("return TokenLoss(each.sum(), real.sum())", "return TokenLoss(each.mean(), real.sum())"),
    ("return TokenLoss(each.sum(), real.sum())", "return TokenLoss(each.sum(), torch.tensor(real.numel()))"),
    ("pad=pad, label_smoothing=label_smoothing).mean()", "pad=0, label_smoothing=label_smoothing).mean()"),
    ("pad=pad, label_smoothing=label_smoothing).mean()", "pad=pad).mean()"),
    ("pad_is_a_class = 0 <= pad < num_classes", "pad_is_a_class = True"),
    ("pad_is_a_class = 0 <= pad < num_classes", "pad_is_a_class = 0 <= pad <= num_classes"),
    ("pad_is_a_class = 0 <= pad < num_classes", "pad_is_a_class = 0 < pad < num_classes"),
    ("num_classes - (2 if pad_is_a_class else 1)", "num_classes - (1 if pad_is_a_class else 2)"),
    ("num_classes - (2 if pad_is_a_class else 1)", "num_classes - 1"),
    ("label_smoothing / max(others, 1)", "label_smoothing / num_classes"),
    ("if others < 1 and label_smoothing > 0:", "if others < 1:"),
    ("if others < 1 and label_smoothing > 0:", "if False:"),
    ("shares.scatter(-1, target, 1 - label_smoothing)", "shares.scatter(-1, target, 1)"),
    ("        shares[..., pad] = 0.0\n", "        shares[..., 0] = 0.0\n"),
    ("        shares[..., pad] = 0.0\n", "        pass\n"),
    ("return shares * real[..., None]", "return shares"),
    ("    if logits.shape[:-1] != targets.shape:\n", "    if logits[..., 0].numel() != targets.numel():\n"),
    ("if not 0.0 <= label_smoothing <= 1.0:", "if label_smoothing < 0.0:"),
    ("if not 0.0 <= label_smoothing <= 1.0:", "if label_smoothing > 1.0:"),
    ("if real_targets.dtype != torch.int64:", "if real_targets.is_floating_point():"),
    ("(real_targets < 0) | (real_targets >= num_classes)", "(real_targets >= num_classes)"),
    ("(real_targets < 0) | (real_targets >= num_classes)", "(real_targets < 0)"),
    (
        "(real_targets < 0) | (real_targets >= num_classes)",
        "(real_targets < 0) | (real_targets > num_classes)",
    ),
]
SCHEDULES = [
    ("    return 1.0\n", "    return float(step)\n"),
    ("if step <= warmup:", "if step < warmup - 1:"),
    ("return step / warmup", "return (step - 1) / warmup"),
    ("if step >= total:", "if step > total + 1:"),
    ("        return floor\n", "        return 0.0\n"),
    ("(step - warmup) / (total - warmup)", "step / total"),
    ("(step - warmup) / (total - warmup)", "(step - warmup) / total"),
    ("math.cos(math.pi * ", "math.cos(2 * math.pi * "),
    ("floor + (1 - floor) * (1 +", "floor + (1 +"),
    ("floor + (1 - floor) * (1 +", "(1 - floor) * (1 +"),
    ("falling = step**-0.5", "falling = step**-1.0"),
    ("step * warmup**-1.5", "step * warmup**-0.5"),
    ("if warmup > 0 else math.inf", "if warmup > 0 else 0.0"),
    ("d_model**-0.5 * min(falling, rising)", "d_model**-0.5 * max(falling, rising)"),
    ("d_model**-0.5 * min(falling, rising)", "d_model**0.5 * min(falling, rising)"),
    ('_check("total", total, max(1, warmup))', '_check("total", total, 1)'),
    ('_check("total", total, max(1, warmup))', '_check("total", total, warmup)'),
    ("if not 0.0 <= floor <= 1.0:", "if floor < 0.0:"),
    ("if not 0.0 <= floor <= 1.0:", "if floor > 1.0:"),
    ("if value < lowest:", "if value < lowest - 1:"),
]
LOOP = [
    ("History() if history is None else history", "History()"),
    ("    history.stopped_early = False\n", "    pass\n"),
    ("list(itertools.islice(stream, micro_batches))", "list(itertools.islice(stream, micro_batches + 1))"),
    ("list(itertools.islice(stream, micro_batches))", "list(itertools.islice(stream, 1))"),
    ("if len(drawn) < micro_batches:", "if not drawn:"),
    ("                    after_step(history)\n", "                    pass\n"),
    ("history.losses[-1] < stop_below", "history.losses[-1] > stop_below"),
    ("                    break\n", "                    pass\n"),
    ("        model.train(was_training)\n", "        pass\n"),
    ("    model.train()\n", "    pass\n"),
    ("if steps < 1:", "if False:"),
    ("if lr is None and optimizer is None:", "if False:"),
    ("if lr is not None and lr <= 0:", "if lr is not None and lr < 0:"),
    ("if clip is not None and clip <= 0:", "if clip is not None and clip < 0:"),
    ("if micro_batches < 1:", "if False:"),
    ("step = history.steps + 1", "step = history.steps"),
    ("step = history.steps + 1", "step = 1"),
    ("    optimizer.zero_grad()\n    value", "    value"),
    ("            optimizer.zero_grad()\n", ""),
    ("math.inf if clip is None else clip)", "clip or 1.0)"),
    ("math.inf if clip is None else clip)", "math.inf)"),
    ("clip_grad_norm_(parameters,", "clip_grad_norm_(model.parameters(),"),
    ("if not math.isfinite(number):", "if math.isnan(number):"),
    ("if not math.isfinite(number):", "if math.isinf(number):"),
    ('(("loss", value), ("norm of the gradient", norm))', '(("loss", value),)'),
    ('(("loss", value), ("norm of the gradient", norm))', '(("norm of the gradient", norm),)'),
    ('group.setdefault("initial_lr", group["lr"]) * schedule(step)', 'group["lr"] * schedule(step)'),
    ('group.setdefault("initial_lr", group["lr"]) * schedule(step)', "schedule(step)"),
    ("        for group in optimizer.param_groups:\n", "        for group in optimizer.param_groups[:1]:\n"),
    ("    optimizer.step()\n", ""),
    ("history.losses.append(value)", "history.losses.append(norm)"),
    ("history.gradient_norms.append(norm)", "history.gradient_norms.append(min(norm, clip or norm))"),
    ("    history.learning_rates.append(", "    (lambda rate: None)("),
    ("model(*inputs) if isinstance(inputs, tuple) else model(inputs)", "model(inputs)"),
    ("            if len(drawn) > 1:\n", "            if False:\n"),
    ("        value.total.backward()", "        value.mean().backward()"),
    ("        count += int(value.num_tokens)", "        count += 1"),
    ("        count += int(value.num_tokens)", "        count = int(value.num_tokens)"),
    ("        total += value.total.item()", "        total += value.mean().item()"),
    ("                parameter.grad /= count\n", "                parameter.grad /= len(drawn)\n"),
    ("                parameter.grad /= count\n", "                pass\n"),
    ("return total / max(count, 1)", "return total / count"),
    ("return total / max(count, 1)", "return total"),
    ("        self.step = step\n", "        self.step = step - 1\n"),
]
STORAGE = [
    ("    if json.loads(text) != document:\n", "    if False:\n"),
    (".detach().cpu().contiguous().clone()", ".detach().cpu().contiguous()"),
    (".detach().cpu().contiguous().clone()", ".detach().cpu().clone()"),
    ("with open(beside,", "with open(path,"),
    ("        beside.unlink(missing_ok=True)\n", "        pass\n"),
    (
        "            file.flush()\n            os.fsync(file.fileno())\n        os.replace(beside, path)\n",
        "            os.replace(beside, path)\n",
    ),
    ("file.get_tensor(name).clone()", "file.get_tensor(name)"),
    ("    if _digest(tensors, text) != digest:\n", "    if False:\n"),
    ('if header.get("format") != _FORMAT:', "if False:"),
    ("header = header or {}", "header = header"),
    ("int(version) > FORMAT_VERSION", "int(version) > 10"),
    ("int(version) > FORMAT_VERSION", "int(version) < FORMAT_VERSION"),
    ("not version.isdigit() or ", ""),
    ('if "document" not in header or "sha256" not in header:', 'if "document" not in header:'),
    ('if "document" not in header or "sha256" not in header:', 'if "sha256" not in header:'),
    ('hashlib.sha256(text.encode("utf-8"))', "hashlib.sha256()"),
    ("{name} {tensor.dtype} {tuple", "{tensor.dtype} {tuple"),
    ("{tensor.dtype} {tuple(tensor.shape)}", "{tuple(tensor.shape)}"),
    ("{tensor.dtype} {tuple(tensor.shape)}", "{tensor.dtype}"),
    ("        digest.update(tensor.reshape(-1)", "        tensor and digest.update(tensor.reshape(-1)"),
    ("for name in sorted(tensors):", "for name in sorted(tensors)[:1]:"),
]
CHECKPOINT = [
    ('"step": step,', '"step": history.steps,'),
    ('"config": {} if config is None else config,\n        "tied"', '"config": {},\n        "tied"'),
    ('"stopped_early": history.stopped_early', '"stopped_early": False'),
    ("    tensors |= optimizer_tensors\n", ""),
    ("dtype=torch.float64)", "dtype=torch.float32)"),
    ('if document["kind"] != "checkpoint":', "if False:"),
    ("    model.load_state_dict(weights)\n", ""),
    ("        optimizer.load_state_dict(state)\n", "        pass\n"),
    ("        generator.set_state(states[name])\n", "        pass\n"),
    (
        "    state = None\n",
        "    model.load_state_dict(weights)\n    state = None\n",
    ),
    (
        "    states = _fitting_generators(",
        "    model.load_state_dict(weights)\n    states = _fitting_generators(",
    ),
    ("first = first_names.setdefault(id(value), name)", "first = name"),
    ("        if not isinstance(value, Tensor):\n", "        if False:\n"),
    ("if given.keys() != asked.keys():", "if given.keys() - asked.keys():"),
    ("if given.keys() != asked.keys():", "if asked.keys() - given.keys():"),
    ("if tensor.shape != ours.shape or tensor.dtype != ours.dtype:", "if tensor.shape != ours.shape:"),
    ("if tensor.shape != ours.shape or tensor.dtype != ours.dtype:", "if tensor.dtype != ours.dtype:"),
    ('    if tied != document["tied"]:\n', "    if False:\n"),
    ("    if generators is None:\n        return {}\n", "    if not generators:\n        return {}\n"),
    ("if states.keys() != generators.keys():", "if generators.keys() - states.keys():"),
    ("if states.keys() != generators.keys():", "if states.keys() - generators.keys():"),
    ("            torch.Generator(generator.device).set_state(states[name])\n", "            pass\n"),
    (
        "            torch.Generator(generator.device).set_state(states[name])\n",
        "            generator.set_state(states[name])\n",
    ),
]
OPTIMIZER_STATE = [
    ('if key != "params"}', 'if key not in ("params", "initial_lr")}'),
    (
        "                if isinstance(value, Tensor):\n",
        '                if isinstance(value, Tensor) and key != "exp_avg":\n',
    ),
    ('    if type(optimizer).__name__ != record["class"]:\n', "    if False:\n"),
    ("    if names != saved_names:\n", "    if len(names) != len(saved_names):\n"),
    (
        "    if names != saved_names:\n",
        "    if sorted(map(sorted, names)) != sorted(map(sorted, saved_names)):\n",
    ),
    ("            state.setdefault(numbers[name], {})[key] = tensor\n", "            pass\n"),
    ("            state.setdefault(numbers[name], {})[key] = _unplain(value)\n", "            pass\n"),
    ('        return {"tuple": [_plain(key, item) for item in value]}\n', "        return list(value)\n"),
    ('        return tuple(_unplain(item) for item in value["tuple"])\n', '        return value["tuple"]\n'),
    ("    raise TypeError(", "    return str("),
]

FILES = {
    "losses": (attnlab.training.losses, ["test_training_losses.py"], [], LOSSES),
    "schedules": (attnlab.training.schedules, ["test_training_schedules.py"], [], SCHEDULES),
    "loop": (attnlab.training.loop, ["test_training.py", "test_training_loop.py"], ["History"], LOOP),
    "storage": (attnlab.training.storage, ["test_training_storage.py"], [], STORAGE),
    "checkpoint": (attnlab.training.checkpoint, ["test_training_checkpoint.py"], ["Checkpoint"], CHECKPOINT),
    "optimizer_state": (
        attnlab.training.optimizer_state,
        ["test_training_optimizer_state.py"],
        [],
        OPTIMIZER_STATE,
    ),
}
JUDGES = {
    name: [Mutants(module, tests, keep=keep) for tests in files]
    for name, (module, files, keep, _) in FILES.items()
}
CASES = [
    pytest.param(name, there, slip, id=f"{name}-{number:02d}")
    for name, (_, _, _, mutants) in FILES.items()
    for number, (there, slip) in enumerate(mutants)
]


@pytest.mark.parametrize("name", list(FILES))
def test_the_source_as_it_stands_passes(name):
    for judge in JUDGES[name]:
        assert judge.first_failure(judge.source) is None


@pytest.mark.parametrize(("name", "there", "slip"), CASES)
def test_mutant_is_noticed(name, there, slip):
    *first, last = JUDGES[name]
    source = last.source
    assert source.count(there) == 1
    if not any(judge.first_failure(source.replace(there, slip)) for judge in first):
        last.require_noticed(there, slip)
