# Certificates that change are taken over while the server runs; what is wrong with them is told, and the old ones stay.
# Sessions are resumed after that, and by the process that replaces this one.
use strict;
use warnings;
use lib 't/lib';

use File::Copy ();
use File::Temp ();
use Howdah::Test::Command qw(run_command run_howdah);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Howdah::Test::Tls;
use POSIX ();
use Test::More;

plan skip_all => 'needs IO::Socket::SSL and openssl' if !Howdah::Test::Tls->is_installed;

require IO::Socket::SSL::Utils;
use constant DAY => 24 * 3600;

# A certificate from so many days ago to so many days ahead.
sub aged {
    my ($name, $from, $to) = @_;
    my $tls = Howdah::Test::Tls->new;
    my ($cert, $key) = IO::Socket::SSL::Utils::CERT_create(
        not_before      => time + $from * DAY,
        not_after       => time + $to * DAY,
        subject         => {commonName => $name},
        subjectAltNames => [[DNS => "$name.example"]]
    );
    IO::Socket::SSL::Utils::PEM_cert2file($cert, $tls->cert);
    IO::Socket::SSL::Utils::PEM_key2file($key, $tls->key);
    return $tls;
}

my ($old, $new, $third) = map { Howdah::Test::Tls->new(names => ["$_.example"]) } qw(old new third);
my ($soon, $short) = (aged('soon', -80, 5), aged('short', -2, 4));
my $used     = Howdah::Test::Tls->new(names => ['old.example']);
my $session  = File::Temp->new;
my $operator = Howdah::Test::Operator->new;
my $server   = Howdah::Test::Server->start(
    app     => 'sub { [200, [], ["hello"]] }',
    options => ['--workers', 1, $used->options, $operator->options, '--metrics-path', '/metrics']
);

# What a client is shown now that asks for that name.
sub shown_by {
    my ($server, @name) = @_;
    my $socket = Howdah::Test::Tls::connect_to($server->port, map { (SSL_hostname => $_) } @name) or return 'nothing';
    return ($socket->peer_certificate('subjectAltNames'))[1];
}

sub shown { return shown_by($server) }

sub comes {
    my $name = shift;
    return $server->wait_until(sub { shown() eq $name }, 20);
}

# Asks on a new connection; gives whether its session was resumed.
sub resumes {
    my $keep    = "$session.pem";
    my $request = "printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'";
    my @in      = -s $keep ? ('-sess_in', $keep) : ();
    my ($status, $out) = run_command(
        'sh', '-c',
        "$request | openssl s_client -ign_eof -connect 127.0.0.1:@{[$server->port]} -sess_out $keep @in"
    );
    my ($how) = $out =~ /^(New|Reused), TLSv1/m;
    return $out =~ /hello/ ? $how : "got $out";
}

is resumes(), 'New', 'the first session';
is resumes(), 'Reused', 'is resumed';

$used->replace($new);
ok comes('new.example'), 'changed files are taken over by themselves';
is resumes(), 'Reused', 'sessions go on';

$used->replace($third);
my ($status, $out) = $operator->ask('reload');
is $status, 0, 'howdah reload';
like $out, qr/the certificates are read anew/, '... tells of them';
is shown(), 'third.example', '... and takes them over';

subtest 'a key that does not match' => sub {
    my $kept = Howdah::Test::Tls->new;
    File::Copy::copy($kept->key, $used->key) or die $!;
    my ($status, $out, $err) = $operator->ask('reload');
    is $status, 1, 'howdah reload fails';
    like $err, qr/the old certificates stay in use: the key in .* does not belong/, 'and says why';
    is shown(), 'third.example', 'the old one stays';
    ok $server->wait_for_log(qr/ERROR .*the old certificates stay in use: the key in/), 'the log says so';
    is $operator->status->{pools}[0]{generation}, 3, 'the application is loaded all the same';
};

subtest 'a pipe in the place of a key' => sub {
    unlink $used->key or die $!;
    POSIX::mkfifo($used->key, oct 600) or die $!;
    ok $server->wait_for_log(qr/ERROR .*the old certificates stay in use: .* is no regular file/),
        'nobody waits for its writer';
    is shown(), 'third.example', 'the old one stays';
    unlink $used->key or die $!;
    $used->replace($new);
    ok comes('new.example'), 'and files are still looked after';
};

$used->replace($short);
($status, $out) = $operator->ask('reload');
is $status, 0, 'one that is of a short life, of which most is left';
unlike $server->log, qr/WARN .* expires in/, '... is no reason to warn';

$used->replace($soon);
$server->signal('HUP');
ok comes('soon.example'), 'HUP';
ok $server->wait_for_log(qr/WARN .* expires in [45] days, on .*: renew it/), 'one that ends soon is told';
my ($certificate) = @{$operator->status->{tls}{certificates}};
is_deeply $certificate->{names}, ['soon.example'], 'the status knows it';
like $certificate->{days}, qr/^[45]$/, 'and for how long it is good';
like + ($operator->ask('status'))[1], qr/^certificate soon\.example, [45] days left/m, 'in words, too';
my $socket = Howdah::Test::Tls::connect_to($server->port);
print {$socket} "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
my $metrics = join '', <$socket>;
like $metrics, qr/^howdah_tls_certificate_expiry_days\{file="[^"]+"\} [45]\b/m, 'a metric';
like $metrics, qr/^howdah_tls_handshakes_total\{result="resumed"\} [2-9]$/m, 'resumed sessions are counted';

is(($operator->ask('upgrade'))[0], 0, 'howdah upgrade');
is resumes(), 'Reused', 'the new process resumes what the old one began';
is shown(), 'soon.example', 'with the same certificate';

subtest 'one of several that is wrong' => sub {
    my ($first, $second) = map { Howdah::Test::Tls->new(names => ["$_.example"]) } qw(one two);
    my $operator = Howdah::Test::Operator->new;
    my $server   = Howdah::Test::Server->start(
        app     => 'sub { [200, [], ["hello"]] }',
        options => ['--workers', 1, (map { $_->options } $first, $second), $operator->options]
    );
    my $shown = sub {
        join ' ', map { shown_by($server, $_) } @_;
    };
    is $shown->(qw(one.example two.example)), 'one.example two.example', 'there are two';
    open my $broken, '>', $first->cert or die $!;
    print {$broken} "broken\n";
    close $broken or die $!;
    $second->replace($new);
    my ($status, $out, $err) = $operator->ask('reload');
    is $status, 1, 'howdah reload fails';
    like $err, qr/the old certificates stay in use: .* is no PEM file.*; what is in the other files is taken over/,
        'and says how it went';
    is $shown->(qw(one.example new.example)), 'one.example new.example', 'the other is taken over';
};

subtest 'one that cannot be read for a while' => sub {
    my $used   = Howdah::Test::Tls->new(names => ['first.example']);
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], ["hello"]] }',
        options => ['--workers', 1, $used->options]
    );
    my @limit = ('prlimit', '--pid', $server->pid);
    my ($status, $most) = run_command(@limit, qw(--nofile --noheadings --raw --output SOFT));
    is $status, 0, 'there is a bound of descriptors' or diag $most;
    is + (run_command(@limit, '--nofile=3:'))[0], 0, 'which is reached';
    $used->replace($new);
    ok $server->wait_for_log(qr/ERROR .*the old certificates stay in use: cannot read .*: Too many open files/),
        'a change is not taken over'
        or diag $server->log;
    is + (run_command(@limit, '--nofile=' . ($most =~ s/\s//gr) . ':'))[0], 0, 'and when there are descriptors again';
    ok $server->wait_until(sub { shown_by($server) eq 'new.example' }, 20), 'it is, though nothing changes any more'
        or diag $server->log;
};

subtest 'one that changes while the application is loaded' => sub {
    my $used = Howdah::Test::Tls->new(names => ['old.example']);
    my $code = sprintf 'use File::Copy; copy(@$_) or die $! for %s;',
        join ', ', map { "['@{[$new->$_]}', '@{[$used->$_]}']" } qw(cert key);
    my $server = Howdah::Test::Server->start(
        app     => "$code sub { [200, [], ['hello']] }",
        options => ['--workers', 1, $used->options]
    );
    ok $server->wait_until(sub { shown_by($server) eq 'new.example' }, 20), 'it is taken over, too';
};

subtest 'one that has expired where there is no other' => sub {
    my ($past, $operator) = (aged('past', -2, -1), Howdah::Test::Operator->new);
    my @options = ('--workers', 1, $new->options, $past->options);
    my ($status, $out, $err) = run_howdah('check', @options, '-e', 'sub {}');
    ok $status, 'is refused before';
    like $err, qr/the certificate in .* has expired on .*: renew it/, '... with its file';
    my $server = Howdah::Test::Server->start(
        app     => 'sub { [200, [], ["hello"]] }',
        options => [@options, $operator->options]
    );
    my $told = qr/ERROR .*the certificate in .* has expired on .*: renew it/;
    ok $server->wait_for_log($told), 'is told at the start';
    is shown_by($server, 'past.example'), 'past.example', '... and served';
    is shown_by($server, 'new.example'), 'new.example', '... beside others';
    is(($operator->ask('upgrade'))[0], 0, 'nor is it in the way of an upgrade');
    is shown_by($server, 'past.example'), 'past.example', '... which serves it, too';
};

done_testing;
