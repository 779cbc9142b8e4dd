# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""The synchronous client. unasync.py has made it of the asynchronous one, _async."""
