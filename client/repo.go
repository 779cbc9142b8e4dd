// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net/url"
	"strconv"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// repoPath is the path of something that belongs to a repository, which is named by its
// id or name in every method of this file.
func repoPath(repo string, rest ...string) string {
	return pathOf(append([]string{"git", "v1", "repo", repo}, rest...)...)
}

// CreateRepo makes a repository and returns its id.
func (c *Client) CreateRepo(ctx context.Context, in api.NewRepo) (string, error) {
	made, err := do[api.CreatedRepo](ctx, c, call{method: "POST", path: pathOf("git", "v1", "repo")}, in)
	return made.RepoID, err
}

// Repos returns one page of repositories, the newest first. limit 0 = 10.
func (c *Client) Repos(ctx context.Context, search string, limit, offset int) (api.RepoList, error) {
	q := url.Values{"offset": {strconv.Itoa(offset)}}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if search != "" {
		q.Set("search", search)
	}
	return do[api.RepoList](ctx, c, call{method: "GET", path: pathOf("git", "v1", "repo"), query: q}, nil)
}

// Repo returns one repository.
func (c *Client) Repo(ctx context.Context, repo string) (api.GitRepo, error) {
	return do[api.GitRepo](ctx, c, call{method: "GET", path: repoPath(repo)}, nil)
}

// RemoveRepo deletes a repository with its history.
func (c *Client) RemoveRepo(ctx context.Context, repo string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: repoPath(repo)}, nil)
	return err
}

// SetRepoVisibility makes a repository public or private.
func (c *Client) SetRepoVisibility(ctx context.Context, repo, visibility string) error {
	_, err := do[none](ctx, c, call{method: "PUT", path: repoPath(repo, "visibility")}, api.RepoVisibility{Visibility: visibility})
	return err
}

// SetDefaultBranch chooses the branch that a clone checks out.
func (c *Client) SetDefaultBranch(ctx context.Context, repo, branch string) error {
	_, err := do[none](ctx, c, call{method: "PUT", path: repoPath(repo, "default-branch")}, api.DefaultBranch{DefaultBranch: branch})
	return err
}

// ProtectBranch protects the branches that a pattern matches and returns all patterns.
func (c *Client) ProtectBranch(ctx context.Context, repo, pattern string) ([]string, error) {
	p, err := do[api.ProtectedBranches](ctx, c, call{method: "PUT", path: repoPath(repo, "protected-branches", pattern)}, nil)
	return p.Branches, err
}

// UnprotectBranch removes a pattern of protected branches and returns the others.
func (c *Client) UnprotectBranch(ctx context.Context, repo, pattern string) ([]string, error) {
	p, err := do[api.ProtectedBranches](ctx, c, call{method: "DELETE", path: repoPath(repo, "protected-branches", pattern)}, nil)
	return p.Branches, err
}

// RepoCommits lists commits of a branch or another revision ("" = the default branch),
// the newest first, that changed path ("" = any). limit 0 = 50, at most 500.
func (c *Client) RepoCommits(ctx context.Context, repo, rev, path string, limit int) ([]api.GitCommit, error) {
	q := url.Values{"disableTotalCount": {"true"}}
	for name, v := range map[string]string{"branch": rev, "path": path} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	l, err := do[api.CommitList](ctx, c, call{method: "GET", path: repoPath(repo, "git", "commits"), query: q}, nil)
	return l.Commits, err
}

// RepoCommit makes a commit of files on a branch.
func (c *Client) RepoCommit(ctx context.Context, repo string, in api.NewCommit) (api.GitCommit, error) {
	made, err := do[api.CreatedCommit](ctx, c, call{method: "POST", path: repoPath(repo, "commits")}, in)
	return made.Commit, err
}

// CompareRevs says what head has that base has not.
func (c *Client) CompareRevs(ctx context.Context, repo, base, head string) (api.GitComparison, error) {
	return do[api.GitComparison](ctx, c, call{method: "GET", path: repoPath(repo, "compare"), query: url.Values{"base": {base}, "head": {head}}}, nil)
}

// Patch writes the changes from base to head, or those of the commit head if base is "",
// as a unified diff.
func (c *Client) Patch(ctx context.Context, repo, base, head string, w io.Writer) error {
	q := url.Values{}
	for name, v := range map[string]string{"base": base, "head": head} {
		if v != "" {
			q.Set(name, v)
		}
	}
	resp, err := c.send(ctx, call{method: "GET", path: repoPath(repo, "patch"), query: q})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return c.broken(ctx, err)
	}
	return nil
}

// SearchRepo finds lines that match in the files of a revision ("" = the default branch).
func (c *Client) SearchRepo(ctx context.Context, repo, rev, query string) (vm.RepoSearch, error) {
	q := url.Values{"query": {query}}
	if rev != "" {
		q.Set("rev", rev)
	}
	return do[vm.RepoSearch](ctx, c, call{method: "GET", path: repoPath(repo, "search"), query: q}, nil)
}

// GrantRepo lets an identity read, or read and write, a repository. With change it
// replaces a permission.
func (c *Client) GrantRepo(ctx context.Context, identity, repo string, in api.GrantRepo, change bool) error {
	method := "POST"
	if change {
		method = "PUT"
	}
	_, err := do[none](ctx, c, call{method: method, path: pathOf("identity", "v1", "identities", identity, "permissions", "git", repo)}, in)
	return err
}

// RevokeRepo removes an identity's permission for a repository.
func (c *Client) RevokeRepo(ctx context.Context, identity, repo string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: pathOf("identity", "v1", "identities", identity, "permissions", "git", repo)}, nil)
	return err
}

// Triggers lists the webhooks of a repository, without their secrets.
func (c *Client) Triggers(ctx context.Context, repo string) ([]api.Trigger, error) {
	l, err := do[api.TriggerList](ctx, c, call{method: "GET", path: repoPath(repo, "trigger")}, nil)
	return l.Triggers, err
}

// CreateTrigger makes a webhook. Its answer has the secret, which is not shown again.
func (c *Client) CreateTrigger(ctx context.Context, repo string, in api.NewTrigger) (api.CreatedTrigger, error) {
	return do[api.CreatedTrigger](ctx, c, call{method: "POST", path: repoPath(repo, "trigger")}, in)
}

// RemoveTrigger removes a webhook.
func (c *Client) RemoveTrigger(ctx context.Context, repo, trigger string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: repoPath(repo, "trigger", trigger)}, nil)
	return err
}

// Deliveries lists the last calls of a webhook, the newest first.
func (c *Client) Deliveries(ctx context.Context, repo, trigger string) ([]vm.Delivery, error) {
	l, err := do[api.DeliveryList](ctx, c, call{method: "GET", path: repoPath(repo, "trigger", trigger, "deliveries")}, nil)
	return l.Deliveries, err
}

// CloneURL is the address from which git clones a repository. It has no credentials; see
// GitCredential.
func (c *Client) CloneURL(id string) string { return c.base.String() + pathOf(id) }

// GitCredential is the password with which git authenticates to the server at an
// address, such as http://127.0.0.1:8787; "" = the address is another server's.
func (c *Client) GitCredential(protocol, host string) string {
	if protocol != c.base.Scheme || host != c.base.Host {
		return ""
	}
	return c.key
}
