# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client. unasync.py makes the synchronous one of it, _sync."""
