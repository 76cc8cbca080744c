"""Packaging for jaxroll."""

import pathlib

import setuptools

_HERE = pathlib.Path(__file__).parent

setuptools.setup(
  name="jaxroll",
  version="0.1.0",
  description=(
    "Adaptive rollouts for reinforcement-learning post-training of "
    "language models, in JAX."
  ),
  long_description=(_HERE / "README.md").read_text(encoding="utf-8"),
  long_description_content_type="text/markdown",
  license="Apache-2.0",
  packages=setuptools.find_packages(include=["jaxroll*", "experiments*"]),
  package_data={"jaxroll.environments": ["samples/*"]},
  python_requires=">=3.11",
  install_requires=[
    "absl-py>=2.1",
    "chex>=0.1.90",
    "flax>=0.12",
    "grain>=0.2.10",
    "jax>=0.10",
    "matplotlib>=3.9",
    "ml_collections>=1.0",
    "numpy>=2.0",
    "optax>=0.2.5",
    "orbax-checkpoint>=0.11.30",
    "scipy>=1.14",
  ],
  extras_require={
    "lm": [
      "gguf>=0.17",
      "jinja2>=3.1",
      "safetensors>=0.5",
      "tokenizers>=0.21",
    ],
    "tasks": ["math-verify>=0.8", "pyarrow>=17.0", "reasoning-gym>=0.1.20"],
    "test": [
      "accelerate>=1.1",
      "gguf>=0.17",
      "hypothesis>=6.100",
      "ipykernel>=6.29",
      "jinja2>=3.1",
      "math-verify>=0.8",
      "nbclient>=0.10",
      "nbformat>=5.10",
      "pyarrow>=17.0",
      "pytest>=8.0",
      "pytest-timeout>=2.3",
      "pytest-xdist>=3.6",
      "reasoning-gym>=0.1.20",
      "ruff>=0.6",
      "safetensors>=0.5",
      "tensorboardX>=2.6",
      "tokenizers>=0.21",
      "torch>=2.6",
      "transformers>=5.0",
    ],
    "tensorboard": ["tensorboardX>=2.6"],
  },
)
