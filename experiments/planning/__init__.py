"""What does a plan consist of? The parts of `experiments.plan`.

models      public sizes of pretrained transformers
topologies  devices that are not there, and what a chip can do
programs    the real rollout and update, compiled on shapes
figures     what the compiled programs say, in numbers
kernels     what the kernels save of it, on one chip; kernel_calls their arrays
advice      what to change where something does not fit
sweep       which mesh shape is best
"""
