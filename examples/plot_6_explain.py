"""Which prototypes gave this answer?
==================================

A network with thirty prototypes reads a digit. The answer is the weighted sum of the values of its prototypes, so
that the largest weights say what it is made of.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

import idwbench
from idwbench.data.loading import load_dataset
from idwbench.models.saved_model import stored_model

config = idwbench.run_config("digits", prototypes=30, power=8, epochs=30)
with TemporaryDirectory() as folder:
    run = idwbench.train(config, Path(folder, "results.db"))
    model = stored_model(idwbench.Results(Path(folder, "results.db")), run)
print(f"test accuracy {run.metric('accuracy'):.1%}")

test = load_dataset(config.dataset).test
image = model.scaling.invert(test.inputs[5])
explanation = model.explain(image)

figure, panels = plt.subplots(1, 6, figsize=(11, 2.3), layout="constrained")
panels[0].imshow(image.reshape(8, 8), cmap="gray_r")
panels[0].set_title(f"input, answer {model.predict([image])[0]}", fontsize=9)
for axes, key, value, weight in zip(
    panels[1:], explanation.keys, explanation.values, explanation.weights, strict=False
):
    axes.imshow(key.reshape(8, 8), cmap="gray_r")
    axes.set_title(f"weight {weight:.0%}, class {model.class_names[np.argmax(value)]}", fontsize=9)
for axes in panels:
    axes.set_axis_off()
plt.show()
