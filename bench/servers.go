package main

import (
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
	"strings"
	"time"

	"github.com/budgetd/budgetd/internal/testservers"
)

// startLimit bounds the start of a server.
const startLimit = 2 * time.Minute

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

// mariadb starts a MariaDB that flushes at every commit, and returns the DSN of an empty database.
// With binlog it also has a binary log that is flushed at every commit.
func (s *stage) mariadb(binlog bool) (*testservers.MariaDBServer, string, error) {
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
	return server, server.DSN("bench"), nil
}

func (s *stage) folder(name string) (string, error) {
	dir := filepath.Join(s.dir, name)
	return dir, os.Mkdir(dir, 0o700)
}

// budgetd is a running budgetd with its servers.
type budgetd struct {
	process
	watched []string // NAME=PID
	reached []string // flags with which budgetctl reaches it
	dsn     string   // of its MariaDB; "" means SQLite
}

// budgetd starts a budgetd on MariaDB and Redis, or embedded.
func (s *stage) budgetd(o ours) (budgetd, error) {
	// The audit at the end counts millions of rows in one request.
	text := "cache: {budgets: 100000}\nhttp: {request_timeout: 5m}\n"
	if o.remember {
		text += "store_mode: {record_window: 2h}\n"
	}
	var watched []string
	var dsn string
	if !o.embedded {
		var instances []string
		if o.filterless {
			instances = []string{"{name: sql, driver: sql}"}
		}
		for i := range max(o.instances, 1) - len(instances) {
			redis, err := s.redis(fmt.Sprintf("redis-%d", i), o.fsync)
			if err != nil {
				return budgetd{}, err
			}
			instances = append(instances, fmt.Sprintf("{name: redis-%d, driver: redis, addrs: [%q]}", i,
				redis.Addr()))
			watched = append(watched, fmt.Sprintf("redis=%d", redis.Pid()))
		}
		mariadb, itsDSN, err := s.mariadb(o.binlog)
		if err != nil {
			return budgetd{}, err
		}
		dsn = itsDSN
		text += fmt.Sprintf("database: {driver: mysql, dsn: %q}\ninstances: [%s]\n", dsn,
			strings.Join(instances, ", "))
		watched = append(watched, fmt.Sprintf("mariadb=%d", mariadb.Pid()))
	}
	reached, secured, err := s.secured(o)
	if err != nil {
		return budgetd{}, err
	}
	text += secured
	config := filepath.Join(s.dir, "budgetd.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return budgetd{}, err
	}
	p, err := s.start("budgetd", []string{"BUDGETD_LISTEN=127.0.0.1:0"}, "--config", config)
	if err != nil {
		return budgetd{}, err
	}
	scheme := "http://"
	if o.tls {
		scheme = "https://"
	}
	return budgetd{p, append([]string{fmt.Sprintf("server=%d", p.pid)}, watched...),
		append(reached, "--server", scheme+p.address), dsn}, nil
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
