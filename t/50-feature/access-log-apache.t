# The access log against the log of a real Apache httpd: the same raw requests, the same format, field by field.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Server;
use IO::Socket::INET ();
use Test::More;
use Time::HiRes qw(sleep time);

my ($httpd)   = grep { -x } qw(/usr/sbin/apache2 /usr/sbin/httpd);
my ($modules) = grep { -d } qw(/usr/lib/apache2/modules /usr/lib64/httpd/modules);
plan skip_all => 'no Apache httpd (apt-get install apache2-bin)' if !$httpd || !$modules;

# What both servers know, and what depends on the request alone or on a response that both send.
my @fields = (
    qw(%h %a %{c}a %l %u "%r" %m %U %q %H %s %>s %b %B %I %k %X %V),
    qw(%{Referer}i %{User-agent}i %{X-Twice}i %{None}i %{Content-Type}o %{Content-Length}o %{None}o %{sid}C %{none}C),
    qw(%200s %!200s %404{User-agent}i %!404{User-agent}i %%),
);
my $format = join '\t', @fields;

my $host  = "Host: Example.ORG:8080\r\n";
my $agent = "User-Agent: tab\there \xff\xc3\xa9 \"200 5\" \\x\r\n";
my @cases = (
    ['plain', "GET /hello.html HTTP/1.1\r\n$host\r\n"],
    ['query with quotes', "GET /hello.html?a=%22\"b\\ HTTP/1.1\r\n$host\r\n"],
    ['a lone question mark', "GET /hello.html? HTTP/1.1\r\n$host\r\n"],
    ['HEAD', "HEAD /hello.html HTTP/1.1\r\n$host\r\n", head => 1],
    ['hostile fields', "GET /hello.html HTTP/1.1\r\n${host}Referer: \"\\\r\n$agent\r\n"],
    ['a field twice', "GET /hello.html HTTP/1.1\r\n${host}X-Twice: 1\r\nX-Twice: 2\\\r\n\r\n"],
    ['cookies', "GET /hello.html HTTP/1.1\r\n${host}Cookie: a=1; sid = x=y\"z ; b\r\n\r\n"],
    ['no such page', "GET /none%22%5c?x HTTP/1.1\r\n$host$agent\r\n"],

    # Without a Host each says its own name.
    ['HTTP/1.0', "GET /hello.html HTTP/1.0\r\n\r\n", skip => {'%V' => 1}],
    ['the client wants to close', "GET /hello.html HTTP/1.1\r\n${host}Connection: close\r\n\r\n"],

    # httpd reads a byte ahead and counts it.
    ['two on a connection', "GET /hello.html HTTP/1.1\r\n$host\r\n" x 2, count => 2, skip => {'%I' => 1}],
);

my $dir    = File::Temp->newdir;
my $apache = Apache->start($dir, $httpd, $modules, $format);
my $app    = <<'PERL';
sub {
    return [404, ['Content-Type' => 'text/html'], ['none']] if $_[0]{PATH_INFO} ne '/hello.html';
    return [200, ['Content-Type' => 'text/html; charset=utf-8', 'Content-Length' => 11], ['hello world']];
}
PERL
my $howdah = Howdah::Test::Server->start(
    app     => $app,
    options => ['--access-log', "$dir/howdah.log", '--access-log-format', $format]
);

my $lines = 0;
for my $case (@cases) {
    my ($name, $request, %how) = @$case;
    subtest $name => sub {
        my $from = $lines;
        $lines += $how{count} // 1;
        my @logs = map { [ask($_->[0], $_->[1], $request, $lines, %how)] }[$apache->{port}, "$dir/apache.log"],
            [$howdah->port, "$dir/howdah.log"];
        compare($_, $logs[0][$_], $logs[1][$_], $how{skip} // {}) for $from .. $lines - 1;
    };
}
is $howdah->stop, 0;
done_testing;

# Sends a request and waits for the log to have so many lines: all of them.
sub ask {
    my ($port, $file, $request, $count, %how) = @_;
    my $client = Howdah::Test::Client->new($port);
    $client->write($request);
    $client->response(head => $how{head}) for 1 .. $how{count} // 1;
    my @lines;
    $howdah->wait_until(sub { @lines = read_lines($file); @lines >= $count }, 10);
    return @lines;
}

sub read_lines {
    open my $in, '<:raw', shift or return;
    return grep { /\n\z/ } <$in>;
}

sub compare {
    my ($number, $theirs, $ours, $skip) = @_;
    my @theirs = split /\t/, $theirs // '', -1;
    my @ours   = split /\t/, $ours // '', -1;
    is @theirs, @fields, "httpd has written line $number" or return;
    for my $at (0 .. $#fields) {
        next if $skip->{$fields[$at]};

        # A page that is not there has the words of each server.
        next if $ours[10] eq '404' && $fields[$at] =~ /^%(?:b|B|\{Content-.*)/;
        local our $TODO = $fields[$at] =~ /Content-Length/ && 'the front does not show the log its own fields';
        is $ours[$at], $theirs[$at], "$fields[$at] of line $number";
    }
    return;
}

package Apache;    ## no critic (ProhibitMultiplePackages RequireFilenameMatchesPackage)

sub start {
    my ($class, $dir, $program, $modules, $format) = @_;
    my $probe = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 1) or die $!;
    my $self  = bless {port => $probe->sockport}, $class;
    close $probe or die $!;
    chmod 0755, "$dir" or die $!;
    mkdir "$dir/www" or die $!;
    write_file("$dir/www/hello.html", 'hello world');
    write_file("$dir/httpd.conf", configuration($dir, $modules, $self->{port}, $format));
    $self->{pid} = fork // die $!;
    $self->{pid} or exec $program, '-X', '-d', "$dir", '-f', "$dir/httpd.conf" or POSIX::_exit(127);
    my $end = Time::HiRes::time() + 10;

    until (IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port})) {
        die 'httpd does not start' if Time::HiRes::time() > $end;
        Time::HiRes::sleep(0.05);
    }
    return $self;
}

sub configuration {
    my ($dir, $modules, $port, $format) = @_;
    $format =~ s/(?=")/\\/g;
    my $load = join '', map { "LoadModule ${_}_module $modules/mod_$_.so\n" } qw(mpm_event authz_core headers);
    return <<"CONF";
$load
User nobody
Group nogroup
ServerName judge.example
Listen 127.0.0.1:$port
DefaultRuntimeDir $dir
PidFile $dir/pid
ErrorLog $dir/error.log
DocumentRoot $dir/www
Header set Content-Type "text/html; charset=utf-8"
LogFormat "$format" judge
CustomLog $dir/apache.log judge
CONF
}

sub write_file {
    my ($name, $text) = @_;
    open my $out, '>:raw', $name or die "cannot write $name: $!";
    print {$out} $text;
    close $out or die "cannot write $name: $!";
    return;
}

sub DESTROY {
    my $self = shift;
    local ($@, $!, $?);
    kill KILL => $self->{pid};
    waitpid $self->{pid}, 0;
    return;
}
