// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

func (s *server) repoSearchRoutes() []route {
	const text = "query rev ref pathPattern excludePattern maxResults caseSensitive isRegex wholeWord offset"
	return []route{
		{"GET", repoBase + "/search", token, s.searchText, "Lines that match, in the files of a revision.", nil, vm.RepoSearch{}, false, text},
		{"GET", repoBase + "/search/files", token, s.searchFiles, "Files whose path matches.", nil, vm.RepoFiles{}, false, text},
		{"GET", repoBase + "/search/commits", token, s.searchCommits, "Commits whose message matches.", nil, vm.FoundCommits{}, false, text},
		{"GET", repoBase + "/search/diffs", token, s.searchDiffs, "Commits that added or removed lines that match.", nil, vm.FoundDiffs{}, false, text},
		{"GET", repoBase + "/trigger", key, s.triggers, "Webhooks of a repository, without their secrets.", nil, api.TriggerList{}, false, ""},
		{"POST", repoBase + "/trigger", key, s.createTrigger, "Call a URL at each push; the secret that signs the calls is shown once.", api.NewTrigger{}, api.CreatedTrigger{}, false, ""},
		{"DELETE", repoBase + "/trigger/{trigger}", key, s.removeTrigger, "Remove a webhook.", nil, okBody{}, false, ""},
		{"GET", repoBase + "/trigger/{trigger}/deliveries", key, s.deliveries, "The last calls of a webhook, newest first.", nil, api.DeliveryList{}, false, ""},
	}
}

// searchQuery reads the query of a search.
func (q *request) searchQuery() (out repo.SearchQuery, err error) {
	v := q.query()
	out = repo.SearchQuery{Query: v.Get("query"), Rev: q.rev(), Include: v.Get("pathPattern"), Exclude: v.Get("excludePattern")}
	limit, err := q.int("maxResults", 0)
	if err != nil {
		return out, err
	}
	offset, err := q.int("offset", 0)
	if err != nil {
		return out, err
	}
	out.Limit, out.Offset = int(min(limit, repo.MaxResults)), int(min(offset, 1<<30))
	for name, to := range map[string]*bool{"caseSensitive": &out.CaseSensitive, "isRegex": &out.Regex, "wholeWord": &out.WholeWord} {
		if *to, err = q.bool(name); err != nil {
			return out, err
		}
	}
	return out, nil
}

// found answers with what a search has found.
func found[T any](q *request, search func(repo.SearchQuery) (T, error)) error {
	in, err := q.searchQuery()
	if err != nil {
		return err
	}
	out, err := search(in)
	if err != nil {
		return err
	}
	return q.ok(out)
}

func (s *server) searchText(q *request) error {
	return found(q, func(in repo.SearchQuery) (vm.RepoSearch, error) {
		return s.Repo.SearchText(q.Context(), q.call, q.repoRef(), in)
	})
}

func (s *server) searchFiles(q *request) error {
	return found(q, func(in repo.SearchQuery) (vm.RepoFiles, error) {
		return s.Repo.SearchFiles(q.Context(), q.call, q.repoRef(), in)
	})
}

func (s *server) searchCommits(q *request) error {
	return found(q, func(in repo.SearchQuery) (vm.FoundCommits, error) {
		return s.Repo.SearchCommits(q.Context(), q.call, q.repoRef(), in)
	})
}

func (s *server) searchDiffs(q *request) error {
	return found(q, func(in repo.SearchQuery) (vm.FoundDiffs, error) {
		return s.Repo.SearchDiffs(q.Context(), q.call, q.repoRef(), in)
	})
}

func (s *server) triggers(q *request) error {
	list, err := s.Repo.Triggers(q.Context(), q.call, q.repoRef())
	if err != nil {
		return err
	}
	out := api.TriggerList{Triggers: []api.Trigger{}}
	for _, t := range list {
		out.Triggers = append(out.Triggers, api.Trigger{RepositoryID: t.Repo, Trigger: t.On, Action: t.Does, ID: t.ID, CreatedAt: t.CreatedAt})
	}
	return q.ok(out)
}

func (s *server) createTrigger(q *request) error {
	var in api.NewTrigger
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	t, err := s.Repo.CreateTrigger(q.Context(), q.call, q.repoRef(), repo.TriggerRequest{On: in.Trigger, Does: in.Action, Secret: in.Secret})
	if err != nil {
		return err
	}
	return q.ok(api.CreatedTrigger{TriggerID: t.ID, Secret: t.Secret})
}

func (s *server) removeTrigger(q *request) error {
	if err := s.Repo.RemoveTrigger(q.Context(), q.call, q.repoRef(), q.values["trigger"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) deliveries(q *request) error {
	list, err := s.Repo.Deliveries(q.Context(), q.call, q.repoRef(), q.values["trigger"])
	if err != nil {
		return err
	}
	return q.ok(api.DeliveryList{Deliveries: append([]vm.Delivery{}, list...)})
}
