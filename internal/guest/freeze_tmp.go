package guest

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

func (c *Client) Freeze(ctx context.Context, disk bool) (vm.FreezeReport, error) {
	return vm.FreezeReport{}, nil
}
func (c *Client) Thaw(ctx context.Context) error { return nil }
