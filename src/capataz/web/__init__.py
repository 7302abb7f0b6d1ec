"""What a browser and other programs see: pages, the HTTP API, and the receiver for spans of other runtimes.

Needs the extra `web` (`pip install "capataz[web]"`). Nothing here decides anything about a run: it reads logs, writes
people's answers into them through the runtime's inbox, and puts work into the queue.
"""
