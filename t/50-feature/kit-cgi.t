# Applications of the kit without a server of PSGI: as CGI scripts, kept in a process that runs scripts, and in parts.
use strict;
use warnings;
use lib 't/lib';

use Encode qw(decode);
use File::Temp ();
use Howdah::Kit;
use Howdah::Test::Command qw(run_command);
use Test::More;

for my $module (qw(Router::Simple Plack::Middleware::Session::Cookie)) {
    eval "require $module; 1" or plan skip_all => "$module is not installed";    ## no critic (ProhibitStringyEval)
}

my $dir = File::Temp->newdir;
$ENV{GUESTBOOK} = "$dir/guests.txt";

# What a web server tells a script.
my %request = (
    GATEWAY_INTERFACE => 'CGI/1.1',
    PATH_INFO         => '/',
    QUERY_STRING      => '',
    REQUEST_METHOD    => 'GET',
    SCRIPT_NAME       => '/cgi-bin/guestbook.cgi',
    SERVER_NAME       => 'test',
    SERVER_PORT       => 80,
    SERVER_PROTOCOL   => 'HTTP/1.1',
);

# Runs a script as a process: what it printed.
sub cgi {
    my ($body, %more) = @_;
    local @ENV{keys %request, keys %more} = (values %request, values %more);
    open my $out, '>:raw', "$dir/body" or die $!;
    print {$out} $body;
    close $out or die $!;
    local $ENV{CONTENT_LENGTH} = length $body;
    my ($status, $text, $err) = run_command('sh', '-c', "exec $^X examples/kit/guestbook.cgi <$dir/body");
    is "$status$err", 0, "$ENV{REQUEST_METHOD} $ENV{PATH_INFO}";
    return $text;
}

subtest 'a CGI script' => sub {
    my $page = cgi('');
    like $page, qr{^Status: 200 OK\r\n.*Content-Type: text/html; charset=utf-8\r\n}s;
    like $page, qr{action="/cgi-bin/guestbook\.cgi/entry"}, 'addresses are below the script';
    my ($cookie) = $page =~ /^Set-Cookie: ([^;\r]+)/m or diag $page;
    my %form     = (REQUEST_METHOD => 'POST', CONTENT_TYPE => 'application/x-www-form-urlencoded');
    my $signed   = cgi('text=%C3%A9t%C3%A9', %form, PATH_INFO => '/entry');
    like $signed, qr{^Status: 303 See Other\r\n.*Location: /cgi-bin/guestbook\.cgi/\r\n}s;
    my $again = cgi('', HTTP_COOKIE => $cookie);
    like decode('UTF-8', $again), qr{<li>\x{e9}t\x{e9}</li>.*Visit 2<}s, 'another process has the session';
    unlike cgi('', HTTP_COOKIE => $cookie =~ s/..\z/00/r), qr/Visit 2</, 'and believes no cookie of a stranger';
    like cgi('text=%FF', %form, PATH_INFO => '/entry'), qr/^Status: 400 Bad Request\r\n.*'text' is not UTF-8/s;
    like cgi('', PATH_INFO                => '/none'), qr/^Status: 404 Not Found\r\n/;
};

subtest 'run(sub {...})' => sub {
    local @ENV{keys %request} = values %request;
    my ($status, $out, $err) =
        run_command($^X, '-e', 'use Howdah::Kit; Howdah::Kit::run(sub { $_[0]->text("plain") })');
    is "$status$err", 0;
    like $out, qr/^Status: 200 OK\r\n.*\r\n\r\nplain\z/s;
    ($status, $out, $err) = run_command($^X, '-e', 'use Howdah::Kit; Howdah::Kit::run(sub { die "hidden" })');
    like $out, qr/^Status: 500 Internal Server Error\r\n.*\r\n\r\nInternal Server Error\n\z/s;
    like $err, qr{^GET /: hidden at -e line 1\.}, 'the reason is for the error log';
};

# A process that compiles each script once and calls it for each request, as mod_perl's Registry does.
subtest 'kept, and run from scripts' => sub {
    my $host = <<'PERL';
        require './examples/kit/startup.pl';
        open my $in, '<', 'examples/kit/kept.cgi' or die $!;
        my $script = eval 'package A::Script; sub { no strict; ' . join('', <$in>) . '}' or die $@;
        for (1 .. 3) { local $ENV{PATH_INFO} = '/where'; $script->() }
        print "I am $$\n";
PERL
    local @ENV{keys %request} = values %request;
    my ($status, $out, $err) = run_command($^X, '-I.', '-e', $host);
    is "$status$err", 0;
    my ($pid) = $out =~ /I am (\d+)$/m;
    my @answers = $out =~ /\r\n\r\n(\d+ \d+)/g;
    is_deeply \@answers, [map { "$pid $_" } 1 .. 3], 'one process, one application' or diag $out;
    ($status, $out, $err) = run_command($^X, '-Iexamples/kit/lib', '-MGuestbook', 'examples/kit/kept.cgi');
    like $err, qr{no application is kept as Guestbook .*kept\.cgi line \d+}, 'without startup.pl it says so';
};

subtest 'several are kept by name; the last of a name counts' => sub {
    my $app = Howdah::Kit->build(sub { 'one' })->cache('shop');
    is + Howdah::Kit->cache('shop'), $app;
    my $other = Howdah::Kit->build(sub { 'two' })->cache('shop');
    is + Howdah::Kit->cache('shop'), $other;
};

subtest 'its parts alone' => sub {
    eval { require Template; 1 } or plan skip_all => 'Template is not installed';
    my ($status, $out, $err) = run_command($^X, 'examples/kit/parts.pl', 'Ada');
    is "$status$err", 0;
    is $out, "Dear Ada,\n2 guests came: Grace, Alan.\n";
};

done_testing;
