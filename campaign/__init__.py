"""A search for surprises: thousands of bad inputs, damaged files, signals and random problems, and what must hold.

    python -m campaign                                   # all parts, in turn
    python -m campaign misuse files --seed 3 --minutes 5
    python -m campaign repeat misuse:3:1207              # one case again, alone

A part is a module with cases. Each case is made from the seed and its number alone, so that it can be made again, and
runs in a worker process, so that it may hang or die: `cases` says what a case and a finding are, `running` runs them,
`judging` says what a call may do.
"""
