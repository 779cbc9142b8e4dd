// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// dnsRoutes are the contract's routes for hosted DNS zones. Warren serves no DNS, and
// these routes say so.
func (s *server) dnsRoutes() []route {
	return []route{
		{"GET", "/dns/v1/records", key, s.dnsRecords, "DNS records of a domain: none, since this server serves no DNS.", nil, api.DNSRecords{}, false, "domain"},
		{"POST", "/dns/v1/records", key, s.addDNSRecord, "Refused: this server serves no DNS.", api.NewDNSRecord{}, nil, false, ""},
		{"DELETE", "/dns/v1/records", key, s.dropDNSRecord, "Refused: this server serves no DNS.", nil, nil, false, "domain record"},
		{"POST", "/domains/v1/certs/{domain}/wildcard", key, s.wildcard, "Refused: each mapped name gets a certificate of its own.", nil, nil, false, ""},
	}
}

const elsewhere = "this server serves no DNS: change the domain's records at its name servers"

func (s *server) dnsRecords(q *request) error {
	if err := s.Names.OwnsDomain(q.call, q.query().Get("domain")); err != nil {
		return err
	}
	return q.ok(api.DNSRecords{Records: []api.DNSRecord{}})
}

func (s *server) addDNSRecord(q *request) error {
	var in api.NewDNSRecord
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if err := s.Names.OwnsDomain(q.call, in.Domain); err != nil {
		return err
	}
	return vm.Errorf(vm.Unsupported, in.Domain, elsewhere).WithCode("ERROR_CREATING_RECORD").WithHint("set the record at the domain's name servers")
}

func (s *server) dropDNSRecord(q *request) error {
	domain := q.query().Get("domain")
	if err := s.Names.OwnsDomain(q.call, domain); err != nil {
		return err
	}
	return vm.Errorf(vm.Unsupported, domain, elsewhere).WithCode("ERROR_DELETING_RECORD", "domain", domain, "name", "").WithHint("remove the record at the domain's name servers")
}

func (s *server) wildcard(q *request) error {
	return vm.Errorf(vm.Unsupported, q.values["domain"], "a wildcard certificate needs control of the domain's DNS, which this server does not have").
		WithCode("FAILED_TO_PROVISION_CERTIFICATE").WithHint("map each name: it gets its own certificate with its first visitor")
}
