// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// aboutWorkdir is the help text about the working directory.
const aboutWorkdir = `exec, run, shell, pty, ssh, scp, cp, fs and watch-files start in the VM's working directory: that of its spec,
else of its image (/workspace in the shipped ones), else the home of the Linux user. Paths are relative to it.`

// aboutCwd is the help of --cwd.
const aboutCwd = "directory in the guest to run in (default the VM's working directory)"
