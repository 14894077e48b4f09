"""``fedsparse federation site``, as a process, whose clock is wrong.

Arguments: by how many seconds it is ahead, and the command's own.
"""

import datetime
import sys
import time

from flwr.supernode import node_auth_http_interceptor

from fedsparse.cli import main

if __name__ == "__main__":
    ahead = float(sys.argv[1])
    true_time, true_now = time.time, node_auth_http_interceptor.now
    time.time = lambda: true_time() + ahead
    node_auth_http_interceptor.now = lambda: true_now() + datetime.timedelta(seconds=ahead)
    sys.argv = ["fedsparse", "federation", "site", *sys.argv[2:]]
    main()
