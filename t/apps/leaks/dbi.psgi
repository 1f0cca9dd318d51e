# Statement handles that are kept. (DBI forgets those that are gone in heaps, so the mended one has only one.)
use v5.16;
use DBI;
my ($dbh, @statements);

sub {
    $dbh //= DBI->connect('dbi:SQLite:dbname=:memory:', '', '', {RaiseError => 1});
    my $statement = $ENV{MENDED} ? $dbh->prepare_cached('SELECT 1') : $dbh->prepare('SELECT 1');
    $statement->execute;
    my ($one) = $statement->fetchrow_array;
    $statement->finish;
    push @statements, $statement if !$ENV{MENDED};
    return [200, [], [$one]];
};
