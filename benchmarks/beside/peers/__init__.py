"""Our defaults beside today's software, on the same arrays and the same work: `make bench-peers`.

What runs is listed in `cases`; how each program is used, with the settings its documentation recommends, is in `sides`.
"""
