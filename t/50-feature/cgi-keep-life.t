# Kept CGI scripts over time: changed files, scripts that do not compile, and those that exceed --request-timeout; what the
# log and ps say of them.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Server;
use Test::More;

my $app = <<'PSGI';
use Howdah::CGI::Keep;
Howdah::CGI::Keep->new(root => $ENV{CGI_SCRIPTS}, mount => '/cgi', index => ['home.cgi'], env => {A => 'one'})->to_app;
PSGI

my $dir = File::Temp->newdir;

# A new file in the place of the old, as editors write it.
sub script {
    my ($name, $text) = @_;
    open my $out, '>:raw', "$dir/new" or die $!;
    print {$out} "#!/usr/bin/perl\nuse strict;\nprint qq{Content-Type: text/plain\\n\\n};\n$text\n";
    close $out or die $!;
    chmod 0755, "$dir/new" or die $!;
    return rename "$dir/new", "$dir/$name";
}

script('home.cgi', 'print qq{home, $ENV{A}, $ENV{SCRIPT_NAME}\n};');
script('broken.cgi', 'print $nowhere;');
script('stuck.cgi', "sub wait_here {\n  sleep 60;\n  return;\n}\nwait_here();\n1;");
script('title.cgi', 'open my $own, q{<}, "/proc/$$/cmdline"; print <$own>;');

my $server = Howdah::Test::Server->start(
    app     => $app,
    env     => {CGI_SCRIPTS => "$dir"},
    options => [
        '--workers', 2, '--request-timeout', '2s', '--access-log', "$dir/log", '--access-log-format',
        '%U %{SCRIPT_FILENAME}e %{HOWDAH_CGI_MODE}e'
    ],
);

sub get { return Howdah::Test::Client->ask($_[1] // $server, "GET $_[0] HTTP/1.1\r\nHost: x\r\n\r\n") }

subtest 'an index script, and variables of the operator' => sub {
    is get('/cgi/')->{body}, "home, one, /cgi/home.cgi\n";
    is get('/cgi/home.cgi/more')->{status}, 200;
    is get('/elsewhere')->{status}, 404;
    is get('/cgi/' . 'x' x 300)->{status}, 404, 'a name that no file can have';
    is get('/cgi/../etc/passwd')->{status}, 403;
};

subtest 'a script that changes is compiled anew' => sub {
    script('home.cgi', 'sub twice { return 2 } print q{home }, twice(), qq{\n};');
    is get('/cgi/')->{body}, "home 2\n" for 1 .. 4;
    utime 0, 0, "$dir/home.cgi" or die $!;
    is get('/cgi/')->{body}, "home 2\n";
    open my $file, '+<:raw', "$dir/home.cgi" or die $!;
    my $text = join '', <$file>;
    seek $file, 0, 0;
    print {$file} $text =~ s/return 2/return 3/r;
    close $file or die $!;
    is get('/cgi/')->{body}, "home 3\n", 'also where the file is the same one, and as long' for 1, 2;
    script('added.cgi', 'print q{added};');
    is get('/cgi/added.cgi')->{body}, 'added', 'and one that was not there before';
    rename "$dir/added.cgi", "$dir/hidden" or die $!;
    is get('/cgi/added.cgi')->{status}, 404;
};

subtest 'a link to a directory beside, whose name begins alike' => sub {
    my $beside = File::Temp->newdir("$dir-XXXX");
    rename "$dir/hidden", "$beside/away.cgi" or die $!;
    symlink "$beside/away.cgi", "$dir/away.cgi" or die $!;
    is get('/cgi/away.cgi')->{status}, 403;
    ok $server->wait_for_log(qr{/away\.cgi is a symbolic link out of the directory});
};

subtest 'what a stuck script has started ends with it' => sub {
    script('starts.cgi', "system 'echo \$\$ > $dir/pid; exec sleep 60';");
    is get('/cgi/starts.cgi')->{status}, 504;
    open my $in, '<', "$dir/pid" or die $!;
    my $pid = <$in>;
    ok $server->wait_until(sub { !kill 0, $pid }, 10), 'the program is gone';
};

subtest 'a script that does not compile' => sub {
    ok $server->wait_for_log(qr{does not compile.*"\$nowhere" requires.* at \Q$dir\E/broken\.cgi line 4\.}),
        'is told at the start';
    is get('/cgi/broken.cgi')->{status}, 500 for 1, 2;
    script('broken.cgi', 'print q{mended};');
    is get('/cgi/broken.cgi')->{body}, 'mended';
};

subtest 'a script that takes too long' => sub {
    is get('/cgi/stuck.cgi')->{status}, 504;
    my $place = qr{\Q$dir\E/stuck\.cgi line};
    ok $server->wait_for_log(
        qr{is here:\n.*at $place 5, in \S+::wait_here\n.*at $place 8, in the main program\n(?!.*Howdah/CGI)}),
        'the log has its lines, and none of ours'
        or diag $server->log;
    ok $server->wait_until(sub { $server->workers == 2 }), 'another worker takes the place';
};

subtest 'whom a middleware around the scripts has let in' => sub {
    script('who.cgi', 'print join q{ }, map { $_ // q{nobody} } @ENV{qw(REMOTE_USER AUTH_TYPE HTTP_AUTHORIZATION)};');
    my $server =
        Howdah::Test::Server->start(env => {CGI_SCRIPTS => "$dir"}, options => ['--workers', 1], app => <<'PSGI');
use Howdah::CGI::Keep;
use Plack::Builder;
builder {
    enable 'Auth::Basic', authenticator => sub { $_[0] ne 'stranger' };
    enable sub { my $app = shift; sub { $_[0]{AUTH_TYPE} = 'Basic' if $_[0]{REMOTE_USER} eq 'ann'; $app->(@_) } };
    Howdah::CGI::Keep->new(root => $ENV{CGI_SCRIPTS}, mount => '/cgi')->to_app;
};
PSGI
    my %who = ('YW5uOngK' => 'ann Basic nobody', 'Ym9iOngK' => 'bob nobody nobody');
    for my $word (sort(keys %who), sort keys %who) {
        my $request = "GET /cgi/who.cgi HTTP/1.1\r\nHost: x\r\nAuthorization: Basic $word\r\n\r\n";
        is + Howdah::Test::Client->ask($server, $request)->{body}, $who{$word}, $who{$word};
    }
};

subtest 'an application beside the scripts keeps its own values of variables of perl' => sub {
    script('bare.cgi', 'print defined $, ? "set" : "undef", q{ }, $^F; ($,, $^F) = ("!", 7); die "left\n"');
    my $server =
        Howdah::Test::Server->start(env => {CGI_SCRIPTS => "$dir"}, options => ['--workers', 1], app => <<'PSGI');
use Howdah::CGI::Keep;
my $scripts = Howdah::CGI::Keep->new(root => $ENV{CGI_SCRIPTS}, mount => '/cgi')->to_app;
($,, $^F) = ('+', 9);
sub { $_[0]{PATH_INFO} =~ m{\A/cgi/} ? $scripts->(@_) : [200, [], ["$, $^F"]] };
PSGI
    for my $time (1 .. 2) {
        is get('/cgi/bare.cgi', $server)->{body}, 'undef 2', 'a script begins with those of a new process';
        is get('/', $server)->{body}, '+ 9', '... the application has its own';
    }
};

like get('/cgi/title.cgi?a=b')->{body}, qr{ GET /cgi/title\.cgi\?a=b HTTP/1\.1}, 'ps shows the request';
is $server->stop, 0;
open my $log, '<', "$dir/log" or die $!;
like join('', <$log>), qr{^/cgi/ \Q$dir\E/home\.cgi keep$}m, 'the access log knows script and mode';

done_testing;
