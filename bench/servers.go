package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// startLimit bounds the start of a server.
const startLimit = 2 * time.Minute

// dial returns a function that asks the server at an address once.
type dial func(address string) (ask func() error, err error)

// through returns the address at which budgetd reaches a server: its own, or that of a proxy that
// makes each round trip longer. The stage notes what a round trip of a question then really takes.
func (s *stage) through(
	address string, away *time.Duration, question string, to dial,
) (string, error) {
	if away == nil {
		return address, nil
	}
	proxy, err := testservers.StartProxy(address)
	if err != nil {
		return "", err
	}
	s.stop = append(s.stop, func() error {
		proxy.Close()
		return nil
	})
	proxy.SetDistance(*away)
	ask, err := to(proxy.Addr())
	if err != nil {
		return "", err
	}
	took := make([]time.Duration, 101)
	for i := range took {
		began := time.Now()
		if err := ask(); err != nil {
			return "", err
		}
		took[i] = time.Since(began)
	}
	trip := figure{question + ", ms", milliseconds(median(took))}
	if !slices.ContainsFunc(s.trips, func(f figure) bool { return f.name == trip.name }) {
		s.trips = append(s.trips, trip) // one of several equal servers stands for all
	}
	return proxy.Addr(), nil
}

// redis starts a Redis with an append-only file that is flushed as fsync says, or without one if
// fsync is "".
func (s *stage) redis(name, fsync string) (*testservers.RedisServer, error) {
	dir, err := s.folder(name)
	if err != nil {
		return nil, err
	}
	options := []testservers.RedisOption{testservers.RedisArgs("--maxmemory-policy", "noeviction")}
	if fsync != "" {
		options = append(options, testservers.AppendOnly(fsync))
	}
	ctx, cancel := context.WithTimeout(s.ctx, startLimit)
	defer cancel()
	server, err := testservers.StartRedis(ctx, dir, options...)
	if err == nil {
		s.stop = append(s.stop, server.Kill)
	}
	return server, err
}

// pinged returns a function that sends PING to a Redis.
func (s *stage) pinged(address string) (func() error, error) {
	c := redis.NewClient(&redis.Options{Addr: address})
	s.stop = append(s.stop, c.Close)
	return func() error { return c.Ping(s.ctx).Err() }, nil
}

// mariadb starts a MariaDB that flushes at every commit, and returns the DSN of an empty database.
// With binlog it also has a binary log that is flushed at every commit.
func (s *stage) mariadb(binlog bool, away *time.Duration) (
	*testservers.MariaDBServer, string, error,
) {
	dir, err := s.folder("mariadb")
	if err != nil {
		return nil, "", err
	}
	options := []testservers.MariaDBOption{testservers.FlushLogAtTrxCommit(1),
		testservers.MariaDBArgs("--innodb-buffer-pool-size=8G", "--innodb-log-file-size=1G")}
	if binlog {
		options = append(options, testservers.Binlog())
	}
	ctx, cancel := context.WithTimeout(s.ctx, startLimit)
	defer cancel()
	server, err := testservers.StartMariaDB(ctx, dir, options...)
	if err != nil {
		return nil, "", err
	}
	s.stop = append(s.stop, server.Kill)
	db, err := sql.Open("mysql", server.DSN("mysql"))
	if err != nil {
		return nil, "", err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE bench"); err != nil {
		return nil, "", err
	}
	dsn := func(address string) string {
		return strings.Replace(server.DSN("bench"), server.Addr(), address, 1)
	}
	selects := func(address string) (func() error, error) {
		db, err := sql.Open("mysql", dsn(address))
		if err != nil {
			return nil, err
		}
		s.stop = append(s.stop, db.Close)
		return func() error { return db.QueryRowContext(s.ctx, "SELECT 1").Scan(new(int)) }, nil
	}
	address, err := s.through(server.Addr(), away, "SELECT 1", selects)
	return server, dsn(address), err
}

func (s *stage) folder(name string) (string, error) {
	dir := filepath.Join(s.dir, name)
	return dir, os.Mkdir(dir, 0o700)
}

// budgetd is a running budgetd with its servers.
type budgetd struct {
	process            // the first node
	addresses []string // of all nodes
	watched   []string // NAME=PID
	reached   []string // flags with which budgetctl reaches the first node
	dsn       string   // of its MariaDB; "" means SQLite
}

// budgetd starts the nodes of a budgetd on MariaDB, or embedded. In store mode it has Redis. In
// ledger mode the configuration names no store, so it is the default one of every commit that is
// measured: SQL decides alone.
func (s *stage) budgetd(o ours) (budgetd, error) {
	// The audit at the end counts millions of rows in one request.
	text := "cache: {budgets: 100000}\nhttp: {request_timeout: 5m}\n"
	if o.remember {
		text += "store_mode: {record_window: 2h}\n"
	}
	var out budgetd
	if o.durability == "store" {
		instances, err := s.instances(o, &out)
		if err != nil {
			return out, err
		}
		text += instances
	}
	if !o.embedded {
		mariadb, dsn, err := s.mariadb(o.binlog, o.sqlAway)
		if err != nil {
			return out, err
		}
		out.dsn = dsn
		text += fmt.Sprintf("database: {driver: mysql, dsn: %q}\n", dsn)
		out.watched = append(out.watched, fmt.Sprintf("mariadb=%d", mariadb.Pid()))
	}
	reached, secured, err := s.secured(o)
	if err != nil {
		return out, err
	}
	text += secured
	config := filepath.Join(s.dir, "budgetd.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return out, err
	}
	var servers []string
	for i := range max(o.nodes, 1) {
		p, err := s.start("budgetd", []string{"BUDGETD_LISTEN=127.0.0.1:0"}, "--config", config)
		if err != nil {
			return out, err
		}
		if i == 0 {
			out.process = p
		}
		out.addresses = append(out.addresses, p.address)
		servers = append(servers, fmt.Sprintf("server=%d", p.pid))
	}
	out.watched = append(servers, out.watched...)
	scheme := "http://"
	if o.tls {
		scheme = "https://"
	}
	out.reached = append(reached, "--server", scheme+out.address)
	return out, nil
}

// instances starts the Redis servers of a row and returns the configuration of them.
func (s *stage) instances(o ours, b *budgetd) (config string, err error) {
	var all []string
	for i := range max(o.instances, 1) {
		name := fmt.Sprintf("redis-%d", i)
		server, err := s.redis(name, cmp.Or(o.fsync, "everysec"))
		if err != nil {
			return "", err
		}
		address, err := s.through(server.Addr(), o.redisAway, "PING", s.pinged)
		if err != nil {
			return "", err
		}
		all = append(all, fmt.Sprintf("{name: %s, driver: redis, addrs: [%q]}", name, address))
		b.watched = append(b.watched, fmt.Sprintf("redis=%d", server.Pid()))
	}
	return fmt.Sprintf("instances: [%s]\n", strings.Join(all, ", ")), nil
}

// secured makes the key and the certificate of a row, and returns flags of budgetctl and the
// configuration of budgetd.
func (s *stage) secured(o ours) (flags []string, config string, err error) {
	if o.keys {
		key, err := s.output("budgetctl", "keys", "generate")
		file := filepath.Join(s.dir, "first-admin.key")
		if err = errors.Join(err, os.WriteFile(file, key, 0o600)); err != nil {
			return nil, "", err
		}
		flags = append(flags, "--token-file", file)
		config += fmt.Sprintf("auth: keys\nkeys: {first_admin_file: %q}\n", file)
	}
	if o.tls {
		cert, key := filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
		if err := certify(cert, key); err != nil {
			return nil, "", err
		}
		flags = append(flags, "--ca-file", cert)
		config += fmt.Sprintf("tls: {cert_file: %q, key_file: %q}\n", cert, key)
	}
	return flags, config, nil
}

// certify writes a self-signed certificate for 127.0.0.1.
func certify(certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
			0o600))
}
