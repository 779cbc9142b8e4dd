package vm

import "time"

type FreezeReport struct {
	Groups   int
	Waited   time.Duration
	Unfrozen []string
}
