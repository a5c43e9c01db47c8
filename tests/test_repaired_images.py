"""The main job on real images: train and patch."""

import numpy as np
from array_models import saved_array_model
from engine_runs import train_run

from idwbench import load_model, run_config
from idwbench.data.loading import load_dataset
from idwbench.models.inputs import PatchLine
from idwbench.models.repair import repair


def test_wrong_answers_come_right_for_their_surroundings_and_hardly_any_other_changes(tmp_path):
    config = run_config("digits", prototypes=20, epochs=20, batch_size=16, learning_rate=0.1)
    digits = load_dataset(config.dataset)
    model, test, steps = saved_array_model(config, digits, train_run(config, digits).arrays), digits.test, np.arange(8)
    right = model.outputs(test.inputs).argmax(1) == test.labels
    assert right.mean() > 0.9
    chosen = np.random.default_rng(0).choice(np.flatnonzero(~right), size=10, replace=False)
    for index in chosen:
        made = repair(model, [PatchLine(f"digits:test:{index}", str(test.labels[index]))])
        assert made.kept["noise"] == 1.0 and made.effects["train"].worse == 0 and made.probabilities[0] > 0.6
        assert made.effects["test"].better + made.effects["test"].worse < 6
        image = test.inputs[index].reshape(8, 8)
        moved = [image[np.clip(steps + down, 0, 7)] for down in (-1, 1)]
        moved += [image[:, np.clip(steps + right, 0, 7)] for right in (-1, 1)]
        answers = made.after.outputs(np.stack(moved).reshape(4, -1)).argmax(1)
        assert made.kept["shifts"] == (answers == test.labels[index]).mean()
    model.patch_all(digits.scaling.invert(test.inputs[chosen]), test.labels[chosen].tolist()).save(tmp_path / "p.pt")
    again = load_model(tmp_path / "p.pt").outputs(test.inputs).argmax(1) == test.labels
    assert again[chosen].all() and again.mean() > right.mean()
