# Connections, files, random number generators and threads from before the fork: the log warns of each once for each load, names
# the peer, the path or the class and the way out, and says nothing of what may be shared or has been closed in time.
use strict;
use warnings;
use lib 't/lib';

use Config;
use Howdah::Test::Client;
use Howdah::Test::Server;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Test::More;

my $dir    = Howdah::Test::Server->launch(listen => undef, command => ['true']);
my $tcp    = IO::Socket::INET->new(Listen => 500, LocalAddr => '127.0.0.1') or die $!;
my $path   = $dir->dir . '/database.sock';
my $unix   = IO::Socket::UNIX->new(Listen => 500, Local => $path) or die $!;
my $peer   = '127.0.0.1:' . $tcp->sockport;
my $answer = 'sub { [200, [], [$$]] };';

# What a server with two workers warns of, after one request.
sub warnings_of {
    my ($code, %how) = @_;
    my @start  = (options => ['--workers', 2, '--max-requests', 1], app => "use Howdah; $code\n$answer", %how);
    my $server = Howdah::Test::Server->start(@start);
    Howdah::Test::Client->ask($server, "GET / HTTP/1.0\r\n\r\n") for 1 .. 5;
    if ($how{reload}) {
        $server->signal('HUP');
        $server->wait_until(sub { 2 == (() = $server->log =~ /workers inherit/g) }, 10);
    }
    $server->stop;
    my @said = $server->log =~ /workers inherit (.*)/g;
    return @said;
}

sub warns_once {
    my ($code, $pattern, $name) = @_;
    my @said = warnings_of($code);
    is scalar(@said), 1, $name // 'one warning' or diag "@said";
    return like $said[0], $pattern;
}

my $connect = "use IO::Socket::INET; our \$db = IO::Socket::INET->new('$peer') or die;";

subtest 'a socket' => sub {
    warns_once $connect, qr/^descriptor \d+, connected to \Q$peer\E: .*Howdah->after_fork.*Howdah->before_fork/,
        'one warning, however many workers are forked';
    my @said = warnings_of("use IO::Socket::UNIX; our \$db = IO::Socket::UNIX->new('$path') or die;");
    like "@said", qr/^descriptor \d+, connected to \Q$path\E:/, 'by a path';
    is scalar(warnings_of($connect, reload => 1)), 2, 'again when the application is loaded again';
};

subtest 'a program that answers by a pipe' => sub {
    my $ask = 'use IPC::Open2; our $pid = open2(our $answers, our $questions, "cat");';
    warns_once $ask, qr/^descriptor \d+, a pipe from another process: .*Howdah->after_fork.*Howdah->before_fork/;
    is scalar(warnings_of("$ask Howdah->before_fork(sub { close \$answers });")), 0, 'closed in before_fork';
};

# Its connection is made by what mode keep compiles for all workers.
subtest 'a socket of a CGI script, which has no hooks' => sub {
    my $script = $dir->write_file('ask.cgi', qq{#!$^X\nBEGIN { $connect }\nprint "Content-Type: text/plain\\n\\n";\n});
    chmod 0755, $script;
    my @keep = ('--cgi', "/ask=$script,mode=keep", '--workers', 2);
    my @said = warnings_of('', app => undef, options => [@keep]);
    like "@said", qr/^descriptor \d+, connected to \Q$peer\E: .*where the script runs.*mode=fork or --no-preload /,
        'where to go';
    unlike "@said", qr/Howdah->/, 'and not by a hook';
    is_deeply [warnings_of('', app => undef, options => [@keep, '--no-preload'])], [],
        'each worker has its own by --no-preload';
};

my $records = $dir->write_file('records', join '', map { sprintf "%-63s\n", $_ } 0 .. 999);
my $read    = "open our \$file, '<', '$records' or die;";

subtest 'a file that is read' => sub {
    warns_once $read, qr/^descriptor \d+, the file \Q$records\E: .*Howdah->after_fork.*Howdah->before_fork/;
    my @said = warnings_of("open our \$file, '+<', '$records' or die; read \$file, my \$record, 64;");
    like "@said", qr/the file \Q$records\E/, 'and written, and begun';
    is scalar(warnings_of("$read Howdah->before_fork(sub { close \$file });")), 0, 'closed in before_fork';
};

subtest 'a random number generator' => sub {
    my $load = '$INC{"Session/Token.pm"} = 1;';
    my $make = "$load our \$tokens = bless \\my \$state, 'Session::Token';";
    warns_once $make, qr/^a random number generator, an object of Session::Token: .*after_fork.*before_fork/;
    is_deeply [warnings_of("$make Howdah->before_fork(sub { undef \$tokens });")], [], 'undefined in before_fork';
    is_deeply [warnings_of($load)], [], 'none was made yet';
};

subtest 'a thread' => sub {
    plan skip_all => 'this perl has no threads' if !$Config{useithreads};
    my $start = 'use threads; our $thread = threads->create(sub { sleep 60 }); select undef, undef, undef, 0.2;';
    warns_once "$start \$thread->detach;",
        qr/^nothing of the thread that was started .*Howdah->after_fork.*--no-preload/;
    my $end = 'use threads; threads->create(sub { 1 })->join;';
    is_deeply [warnings_of($end)], [], 'ended while the application was loaded';
};

subtest 'an environment of LMDB' => sub {
    my $open = '$INC{"LMDB_File.pm"} = 1; our $env = bless \my $state, "LMDB::Env";';
    warns_once $open, qr/^an environment of LMDB, .*Howdah->after_fork.*Howdah->before_fork/;
    is_deeply [warnings_of("$open Howdah->before_fork(sub { undef \$env });")], [], 'undefined in before_fork';
};

my $module =
    $dir->write_file('Data.pm', "package Data;\nsub line { scalar <DATA> }\n1;\n__DATA__\n" . "line\n" x 10_000);

subtest 'nothing to warn of' => sub {
    my %fine = (
        'no connection'             => '',
        'a pipe'                    => 'pipe our $r, our $w;',
        'a pipe, where $/ is undef' => 'undef $/; pipe our $r, our $w;',
        'a directory'               => 'opendir our $directory, "/" or die;',
        'a log' => "open our \$file, '+>>', '$records.log' or die; syswrite \$file, 'x'; seek \$file, 0, 0;",
        'a file that is written' => "use Fcntl; sysopen our \$file, '$records', O_WRONLY or die;",
        'a file that is mapped'  => "open our \$file, '<:mmap', '$records' or die; <\$file>;",
        'a file at its end'      => "$read 1 while <\$file>;",
        "a module's data"        => "require '$module'; Data::line();",
        'a log by a program'     => 'open our $log, "|-", "cat >/dev/null" or die;',
        'a program that is gone' => 'my $pid = open our $list, "-|", "true" or die; waitpid $pid, 0;',
        'a listener'             => 'use IO::Socket::INET; our $l = IO::Socket::INET->new(Listen => 1) or die;',
        'a datagram socket'      =>
            "use IO::Socket::INET; our \$l = IO::Socket::INET->new(Proto => 'udp', PeerAddr => '127.0.0.1:9') or die;",
        'a pair'                  => 'use Socket; socketpair our $l, our $r, AF_UNIX, SOCK_STREAM, 0 or die;',
        'closed after loading'    => "$connect close \$db;",
        'closed in before_fork'   => "$connect Howdah->before_fork(sub { close \$db });",
        'connected in after_fork' =>
            "use IO::Socket::INET; our \$db; Howdah->after_fork(sub { \$db = IO::Socket::INET->new('$peer') });",
    );
    is_deeply [warnings_of($fine{$_})], [], $_ for sort keys %fine;
};

subtest 'not closed in before_fork' => sub {
    is scalar(warnings_of("$connect Howdah->before_fork(sub { 1 });")), 1,
        'one warning, after the first run of the hooks';
};

subtest 'plackup loads the application, sockets are found all the same' => sub {
    my $file   = $dir->write_file('plackup.psgi', "$connect $answer");
    my $server = Howdah::Test::Server->start(
        command => [$^X, '-S', 'plackup', '-s', 'Howdah', '-E', 'test', '--listen', '127.0.0.1:0'],
        file    => $file,
    );
    ok $server->wait_for_log(qr/workers inherit descriptor \d+, connected to \Q$peer\E/);
    is scalar(() = $server->log =~ /workers inherit/g), 1, 'and no other';
};

subtest 'database handles' => sub {
    plan skip_all => 'DBD::SQLite is not installed' if !eval { require DBI; require DBD::SQLite; 1 };
    my $file  = $dir->dir . '/app.db';
    my $open  = "use DBI; our \$dbh = DBI->connect('dbi:SQLite:dbname=$file', '', '', {RaiseError => 1%s});";
    my @said  = warnings_of(sprintf $open, '');
    my $again = 'Howdah->after_fork(sub { $dbh = $dbh->clone });';
    is scalar(@said), 1, 'a file';
    like $said[0], qr/^the DBI handle DBI::db \(SQLite dbname=\Q$file\E\): .*AutoInactiveDestroy/, '... by the handle';
    my $fill = '$dbh->do("create table if not exists t (a)"); $dbh->selectall_arrayref("select * from t");';
    is_deeply [warnings_of(sprintf($open, ', AutoInactiveDestroy => 1') . $fill . $again)], [],
        'AutoInactiveDestroy and after_fork';
    @said = warnings_of(sprintf $open, ', AutoInactiveDestroy => 1');
    is scalar(@said), 1, 'AutoInactiveDestroy alone';
    like $said[0], qr/, unless a module like DBIx::Connector .*before_fork generation=1$/,
        '... which may be enough, and is there';
    my $memory =
        'use DBI; our $dbh = DBI->connect("dbi:SQLite:dbname=%s", "", "", {RaiseError => 1}); $dbh->do("create table t (a)");';
    is scalar(warnings_of(sprintf $memory, $_)), 0, "in memory, of which each has its own: $_"
        for ':memory:', 'file:x?mode=memory';
    is scalar(warnings_of(sprintf $memory, '')), 1, '... but not what may become a file';
    is scalar(warnings_of(sprintf($open, '') . '$dbh->disconnect;')), 0, 'disconnected';
    is scalar(warnings_of(sprintf($open, '') . 'Howdah->before_fork(sub { $dbh->disconnect });')), 0,
        '... in before_fork';
};

done_testing;
