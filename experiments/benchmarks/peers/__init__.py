"""Other frameworks, each in a process with packages of its own.

packages       a virtual environment for each, made once
client         this side of the process: a `timing.Peer`
protocol       that side: which jobs there are, when a clock runs
tunix_worker   google-tunix
trl_worker     TRL on PyTorch

The workers run in other environments and import nothing of this project but
`protocol`, which stands beside them.
"""
