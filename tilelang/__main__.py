"""``python -m tilelang``: the command line."""

from tilelang.cli import main

main()
