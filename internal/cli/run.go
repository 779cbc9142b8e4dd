// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

const (
	removeWithin = 60 * time.Second       // limits the removal at the end, which no signal interrupts
	removeRetry  = 200 * time.Millisecond // while another operation holds the VM
)

type runOptions struct {
	image string
	add   []string
	net   string
	size  sizeFlags
	exec  execOptions

	outputs  []string
	maxBytes string
	maxSet   bool // maxBytes was typed

	inputs  []string
	publish []string

	volumes []string
	giving  giving
	project string
	profile string
	labels  []string
}

func newRun(a *app) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:   "run [IMAGE] [flags] -- CMD [ARG...]",
		Short: "Run one command in a fresh VM and leave nothing behind",
		Long: `Make a VM, run one command in it and remove the VM, also after ^C and when this program is killed.
Output and exit status are the command's; 124 says that --timeout ended it, 125 that Warren failed.

The VM has the profile untrusted: a closed network, no volumes, and an end after an hour, or later if --timeout is
longer. With --volume or --net it has the profile agent; --profile sets another.

--output PATH copies a file or directory of the VM into this directory once the command has ended, also if it
failed or timed out; PATH:LOCAL copies it to LOCAL, by the rules of "warren cp -r". A relative PATH starts in the
command's directory. If an output is missing, a message says so, and an exit status 0 becomes 125.

` + aboutWorkdir + `
--cwd sets the command's directory. --add copies to /work.

--volume mounts an unlocked volume: only files that the command writes there stay. It is unmounted after the
command and stays unlocked.

--add-dir mounts a directory of this host, which must be the server's. It is read-only; with --profile dev it may
be writable. It need not be encrypted: see ` + "`warren volume mount --host`" + ` for that.

--mount shows the objects of a bucket, or those below a prefix, as files to read. The VM gets the right to read them.

A batch job takes its inputs from object storage and leaves its results there. --input fetches an object into /work
before the command, or to the PATH after a colon. --publish stores a file or directory once the command has ended,
also if it failed, as warren publish does: below s3://BUCKET/PREFIX, or in a bucket of the account for runs. All
are stored from one state of the disk. The VM goes, the objects stay.`,
		Example: `  warren run -- python3 -c 'print(6*7)'
  warren run --add data.csv -- wc -l /work/data.csv
  warren run --output report.html -- sh -c 'make-report >report.html'
  warren run --add src --output /work/src/dist:build -- make -C /work/src dist
  warren run --volume results:/data -- sh -c 'date >>/data/log'
  warren run --add-dir testdata:/data:ro -- ls /data
  warren run --profile dev --add-dir .:/src:rw -- make -C /src
  warren run --input s3://data/in.csv --publish /work/out=s3://reports/june -- make-report /work/in.csv /work/out
  warren run --mount s3://datasets/2026:/data:ro -- wc -l /data/june.csv
  warren run --json -- uname -r
  warren run dev --net packages --timeout 10m -- npm view is-number version`,
		Annotations: map[string]string{passes: "yes"},
		Args: func(cmd *cobra.Command, list []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 || dash == len(list) {
				return passing{usage("no command is given").WithHint("put it after --, such as `warren run -- uname -a`")}
			}
			if dash > 1 {
				return passing{usage("unexpected argument %s", printable(list[1])).WithHint("put -- before the command")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, list []string) error {
			o.exec.argv = list
			if cmd.ArgsLenAtDash() == 1 {
				o.image, o.exec.argv = list[0], list[1:]
			}
			o.maxSet = cmd.Flags().Changed("max-bytes")
			if o.exec.json {
				a.gather = &gathered{}
			}
			return passed(a.printGathered(a.run(cmd.Context(), o)))
		},
		ValidArgsFunction: a.completeImages,
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.add, "add", nil, "first copy a file or directory to /work; may repeat")
	f.StringArrayVar(&o.outputs, "output", nil, "copy a file or directory back at the end: PATH, or PATH:LOCAL; may repeat")
	a.trustFlag(cmd)
	f.StringVar(&o.maxBytes, "max-bytes", defaultMaxBytes, "largest file that --output brings back; also limits the bytes of each --input and --publish, else 1G; 0 = any size")
	f.StringArrayVar(&o.inputs, "input", nil, "first fetch an object: s3://BUCKET/KEY[@VERSION][:/PATH]; may repeat")
	f.StringArrayVar(&o.publish, "publish", nil, "publish a file or directory at the end: PATH, or PATH=s3://BUCKET/PREFIX; may repeat")
	a.netFlag(cmd, &o.net, "what it may reach: "+netWords+" (default closed)")
	f.StringArrayVar(&o.volumes, "volume", nil, "mount a volume: VOLUME:/path, or VOLUME:/path:ro to read only; may repeat")
	o.giving.add(cmd)
	projectFlag(cmd, &o.project)
	a.labelFlag(cmd, &o.labels)
	a.profileFlag(cmd, &o.profile, "untrusted, or agent with --volume or a network")
	o.size.add(f)
	o.exec.add(f)
	return cmd
}

// request turns the flags into the VM to make. The name is chosen before the
// VM exists, so that it can always be removed.
func (o *runOptions) request() (api.CreateVM, error) {
	up := upOptions{source: o.image, name: "run-" + string(vm.NewID()), net: o.net, size: o.size, persist: string(vm.Ephemeral), profile: o.profileName(), labels: o.labels}
	r, err := up.request()
	r.OneShot = true
	if err == nil {
		err = o.outlive(&r)
	}
	return r, err
}

// profileName is the least trusted profile that allows the request.
func (o *runOptions) profileName() string {
	switch {
	case o.profile != "":
		return o.profile
	case len(o.volumes) > 0 || o.net != "" && o.net != string(vm.NetClosed):
		return vm.ProfileAgent
	}
	return vm.ProfileUntrusted
}

// afterTimeout is how long a VM exists after its command's time limit.
const afterTimeout = 10 * time.Minute

// outlive extends a VM's TTL to its command's time limit, if its profile's
// TTL is shorter.
func (o *runOptions) outlive(r *api.CreateVM) error {
	p, err := vm.FindProfile(r.Profile)
	if err != nil || p.TTL == 0 || o.exec.timeout == "" {
		return err
	}
	d, err := parseSeconds(o.exec.timeout)
	if d += afterTimeout; err == nil && d > p.TTL {
		r.TTL = vm.Some(seconds(d))
	}
	return err
}

func (a *app) run(ctx context.Context, o *runOptions) (err error) {
	spec, err := o.exec.spec(a.getenv)
	if err != nil {
		return err
	}
	r, err := o.request()
	if err != nil {
		return err
	}
	mounts, err := runVolumes(o.volumes, o.project)
	if err != nil {
		return err
	}
	outputs, err := runOutputs(o.outputs, o.exec.cwd)
	if err != nil {
		return err
	}
	limit, err := parseBytes(o.maxBytes, 1)
	if err != nil {
		return err
	}
	extra, err := o.giving.read()
	if err == nil {
		err = extra.allowed("", r.Profile)
	}
	if err != nil {
		return err
	}
	c, err := a.clientOrServer(ctx)
	if err != nil {
		return err
	}
	if p, err := vm.FindProfile(r.Profile); err == nil && !p.Volumes && len(mounts) > 0 {
		return p.Forbids("", "volumes").WithHint("omit --profile, or use --profile %s", vm.ProfileAgent)
	}
	if err := checkVolumes(ctx, c, mounts); err != nil {
		return err
	}
	job, err := a.batch(ctx, c, o, r.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.removeAfter(ctx, c, r.Name, err)) }()
	if _, err := a.create(ctx, c, r); err != nil {
		return err
	}
	if err := extra.give(ctx, c, r.Name); err != nil {
		return err
	}
	if err := job.bring(ctx); err != nil {
		return err
	}
	cp := copying{app: a, c: c, recursive: true, limit: limit}
	for _, f := range o.add {
		done, err := cp.in(ctx, f, place{vm: r.Name, path: "/work/"})
		if err != nil {
			return err
		}
		a.io.tellLeftOut(done)
	}
	cp.user = o.exec.user
	return a.withVolumes(ctx, c, r.Name, mounts, func() (err error) {
		brought, err := a.withOutputs(ctx, &cp, r.Name, outputs, func() error { return a.runCommand(ctx, c, r.Name, spec) })
		err = job.publish(ctx, err)
		if a.gather != nil {
			a.gather.outputs, a.gather.inputs, a.gather.published = brought, job.fetched, job.published
		}
		return err
	})
}

// runCommand runs a command until it ends, or until a second signal or SIGTERM.
func (a *app) runCommand(ctx context.Context, c *client.Client, name string, spec vm.ExecSpec) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var late lateEnd
	err := a.attached(ctx, c, name, spec, func(e *client.Exec, _ string) { late.end(cancel) })
	if late.ended() {
		return vm.Errorf(vm.Cancelled, "", "interrupted")
	}
	return err
}

// lateEnd records that a second signal, or SIGTERM, ended a run.
type lateEnd struct {
	mu  sync.Mutex
	did bool
}

func (l *lateEnd) end(cancel context.CancelCauseFunc) {
	l.mu.Lock()
	l.did = true
	l.mu.Unlock()
	cancel(vm.Errorf(vm.Cancelled, "", "interrupted"))
}

func (l *lateEnd) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.did
}

// removeAfter removes the VM of a run. No signal stops it. If the create was
// interrupted, the VM may appear later, so it looks for the VM again.
func (a *app) removeAfter(ctx context.Context, c *client.Client, name string, cause error) error {
	_, release := a.signals.take()
	defer release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
	defer cancel()
	misses := 1
	if vm.KindOf(cause) == vm.Cancelled {
		misses = 5
	}
	tick := time.NewTicker(removeRetry)
	defer tick.Stop()
	for {
		err := c.Delete(ctx, name)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, vm.NotFound):
			if misses--; misses <= 0 {
				return nil
			}
		case errors.Is(err, vm.Busy):
		case cause != nil && errors.Is(err, vm.Unavailable):
			return nil // the server is gone, which was reported; it removes one-shot VMs itself when it is back
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return vm.Errorf(vm.Timeout, name, "the VM could not be removed").WithHint("`warren rm %s` removes it", name)
		case <-tick.C:
		}
	}
}
