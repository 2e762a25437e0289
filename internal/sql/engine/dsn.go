package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// CheckDSN returns the error that Open returns for the data source name of a server, or nil.
func CheckDSN(dsn string) error {
	_, err := parseDSN(dsn)
	return err
}

// Place returns the path of a database file, or the server's address and the database's name. It
// leaves out user and password.
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

// parseDSN parses a data source name and adds the parameters on which the ledger relies:
//
//	clientFoundRows=true    affected rows are matched rows, as in SQLite: a compare-and-set that
//	                        finds its row counts 1 even if it changes nothing
//	rejectReadOnly=true     writes leave a server that became a replica (reads: serverConn)
//	interpolateParams=true  one round trip per statement; []byte become _binary'…' literals,
//	                        escaped by the connection's rules, and text is bound only as
//	                        x'…' (statement)
//	parseTime=false         all times are integers: parseTime, loc and charset are overridden
//	multiStatements=false   a bound value cannot become a statement; committers differ
//
// It returns an error for a DSN without a database, or with a contradicting parameter.
func parseDSN(dsn string) (*mysql.Config, error) {
	if err := contradiction(dsn); err != nil {
		return nil, err
	}
	c, err := mysql.ParseDSN(dsn)
	if err != nil || !slices.Contains(networks, c.Net) { // both may have a piece of the password
		return nil, errors.New("database.dsn cannot be understood: it must be " +
			"user:password@tcp(host:3306)/database, with parameters of go-sql-driver/mysql")
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

// networks are those that a DSN may name. The error of dialling another one would quote it.
var networks = []string{"tcp", "tcp4", "tcp6", "unix"}

// fixed are the DSN parameters that budgetd sets, with the value that a DSN may give; "" for none.
var fixed = map[string]string{
	"clientfoundrows": "true", "rejectreadonly": "true", "interpolateparams": "true",
	"multistatements": "false", "columnswithalias": "false",
	"checkconnliveness": "true", "allowallfiles": "false", "strict": "",
	"sql_mode": "", "time_zone": "", "autocommit": "", "innodb_lock_wait_timeout": "",
	"lock_wait_timeout": "", "wait_timeout": "", "tx_isolation": "", "transaction_isolation": "",
	"tx_read_only": "", "transaction_read_only": "", "completion_type": "",
	"default_storage_engine": "", "check_constraint_checks": "",
	"character_set_client": "", "character_set_connection": "", "character_set_results": "",
}

// contradiction returns an error if a parameter contradicts what budgetd relies on.
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
			return fmt.Errorf("database.dsn: %s=%s contradicts what budgetd relies on, %s=%s: leave it out",
				name, value, name, want)
		}
	}
	return nil
}

// sameWord compares a value with "true", "false" or a word, as the driver parses it.
func sameWord(value, want string) bool {
	switch strings.ToLower(value) {
	case "1", "true":
		return want == "true"
	case "0", "false":
		return want == "false"
	}
	return value == want
}

// mariaDB is part of every version of MariaDB and of none of MySQL, in lower case.
const mariaDB = "mariadb"
