"""What `experiments.bench` measures, a file a suite.

suites     their names, and what they are told
shapes     the model and the rows, the same for every framework
timing     a row of the table; runs that take turns; peak memory
products   how long the bare matrix products of the same model take
rollout    suite: `rollout.generate`, full rows and ragged ones
update     suite: `train.update` on the same rows for everyone
step       suite: `train.fused`, all of it
allocate   suite: a step's statistics of up to a million prompts
growth     suite: time and memory as each size is doubled thrice
soak       suite: a thousand steps, and what the process keeps of them
start      suite: seconds to the quickstart's first step
peers/     google-tunix and TRL, each a process with packages of its own
"""
