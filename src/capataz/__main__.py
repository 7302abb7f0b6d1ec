"""`python -m capataz`: the command line, where no script was installed."""

from capataz.cli.main import main

main(prog_name="capataz")
