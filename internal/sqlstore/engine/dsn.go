package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// CheckDSN returns what is wrong with a data source name of a server; Open refuses the same.
func CheckDSN(dsn string) error {
	_, err := parseDSN(dsn)
	return err
}

// Place says where a database is, without user and password: the path of a file, or host and name.
func Place(driver, dsn string) string {
	if driver == sqliteName {
		return dsn
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return ""
	}
	return c.Addr + "/" + c.DBName
}

// parseDSN reads a data source name and adds what the ledger relies on:
//
//	clientFoundRows=true    affected rows are matched rows, as in SQLite: a compare-and-set that
//	                        finds its row counts 1 even if it writes what is there
//	rejectReadOnly=true     a server that became a replica is left by writes (serverConn: by
//
// reads) 	interpolateParams=true  one round trip per statement; []byte become _binary'…'
// literals, escaped 	                        by the connection's rules, and no text is bound in
// any other way but as
//
//	                        x'…' (statement)
//	parseTime=false         all times are integers: parseTime, loc and charset are overridden
//	multiStatements=false   nothing that is bound can become a statement; committers differ
//
// A DSN without a database, or that wants any of it otherwise, is an error.
func parseDSN(dsn string) (*mysql.Config, error) {
	if err := contradiction(dsn); err != nil {
		return nil, err
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("database.dsn: %w", err)
	}
	if c.DBName == "" {
		return nil, errors.New("database.dsn names no database: user:password@tcp(host:3306)/database")
	}
	c.ClientFoundRows, c.RejectReadOnly, c.InterpolateParams = true, true, true
	c.CheckConnLiveness, c.Loc, c.Logger = true, time.UTC, &mysql.NopLogger{}
	c.ParseTime = false // as are loc above and charset by each session
	for _, timeout := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&c.Timeout, dialTimeout}, {&c.ReadTimeout, readTimeout}, {&c.WriteTimeout, writeTimeout}} {
		if *timeout.value <= 0 {
			*timeout.value = timeout.usual
		}
	}
	return c, nil
}

// fixed are the parameters of a DSN that budgetd sets, with the value that may be given; "" for
// none.
var fixed = map[string]string{
	"clientfoundrows": "true", "rejectreadonly": "true", "interpolateparams": "true",
	"multistatements": "false", "columnswithalias": "false",
	"checkconnliveness": "true", "allowallfiles": "false", "strict": "",
	"sql_mode": "", "time_zone": "", "autocommit": "", "innodb_lock_wait_timeout": "",
	"lock_wait_timeout": "", "wait_timeout": "", "tx_isolation": "", "transaction_isolation": "",
	"tx_read_only": "", "transaction_read_only": "", "completion_type": "",
	"character_set_client": "", "character_set_connection": "", "character_set_results": "",
}

// contradiction finds a parameter that asks for something else than budgetd relies on.
func contradiction(dsn string) error {
	_, query, _ := strings.Cut(dsn[strings.LastIndexByte(dsn, '/')+1:], "?")
	for _, parameter := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		want, known := fixed[strings.ToLower(name)]
		switch {
		case !known || want != "" && sameWord(value, want):
		case want == "":
			return fmt.Errorf("database.dsn: budgetd sets %s itself: leave it out", name)
		default:
			return fmt.Errorf(
				"database.dsn: %s=%s contradicts what budgetd relies on, %s=%s: leave it out",
				name,
				value,
				name,
				want,
			)
		}
	}
	return nil
}

// sameWord compares a value with "true", "false" or a word, as the driver reads it.
func sameWord(value, want string) bool {
	switch strings.ToLower(value) {
	case "1", "true":
		return want == "true"
	case "0", "false":
		return want == "false"
	}
	return value == want
}

// mariaDB is part of every version of MariaDB and of none of MySQL, in small letters.
const mariaDB = "mariadb"
