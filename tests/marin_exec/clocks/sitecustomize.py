"""Sets this process's wall clock off by CLOCK_OFFSET_DAYS: imported by Python itself as `sitecustomize`."""

import datetime
import os
import time

OFFSET_SECONDS = float(os.environ["CLOCK_OFFSET_DAYS"]) * 86_400
_time, _time_ns, _datetime = time.time, time.time_ns, datetime.datetime


class ShiftedDatetime(_datetime):
    @classmethod
    def now(cls, tz=None):
        return _datetime.now(tz) + datetime.timedelta(seconds=OFFSET_SECONDS)


time.time = lambda: _time() + OFFSET_SECONDS
time.time_ns = lambda: _time_ns() + int(OFFSET_SECONDS * 1e9)
datetime.datetime = ShiftedDatetime
