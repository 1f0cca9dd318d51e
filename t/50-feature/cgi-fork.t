# A script that is forked cannot tell it from being executed: what scripts say of their process, their perl and what they
# were given, compared byte by byte; and what each trap of t/cgi must answer.
use strict;
use warnings;
use lib 't/lib';

use Cwd qw(abs_path);
use Howdah::Test::Client;
use Howdah::Test::Server;
use Howdah::Test::Traps;
use Test::More;

# Requests that each script of t/cgi/fork gets in both modes.
my @ASKS = (
    {line => 'GET %s?one+two%%20words HTTP/1.1'},
    {line => 'GET %s/path%%20info?a=b&c=d HTTP/1.1'},
    {line => 'POST %s HTTP/1.1', body => "first line\nsecond \xc3\xa9\n"},
);

my %server = map { $_ => server($_) } qw(exec fork);

for my $script (map { m{([^/]+)$} } sort glob 't/cgi/fork/*.cgi') {
    for my $ask (@ASKS) {
        my %heard = map { $_ => ask($_, "/own/$script", $ask) } keys %server;
        is $heard{fork}{status}, $heard{exec}{status}, "$script has the same status for $ask->{line}";
        is $heard{fork}{body}, $heard{exec}{body}, '... and body';
    }
}
unlike $server{fork}->log, qr/is executed and not forked/, 'each was forked';

my $traps = Howdah::Test::Traps->new(mode => 'fork');
$traps->check(port('fork'), sub { $server{fork}->log });

done_testing;

sub server {
    my $mode = shift;
    my ($traps, $own) = map { abs_path($_) } 't/cgi/scripts', 't/cgi/fork';
    return Howdah::Test::Server->start(options => ["--cgi-mode=$mode", "--cgi=/cgi=$traps", "--cgi=/own=$own"]);
}

sub port {
    my $mode = shift;
    my ($port) = $server{$mode}->log =~ m{on http://127\.0\.0\.1:(\d+) };
    return $port // die "no port in the log:\n" . $server{$mode}->log;
}

sub ask {
    my ($mode, $path, $ask) = @_;
    my $line = sprintf $ask->{line}, $path;
    my $body = $ask->{body} // '';
    my $head = join "\r\n", $line, 'Host: own.example', 'Accept: x', 'Content-Length: ' . length $body;
    return Howdah::Test::Client->ask(port($mode), "$head\r\n\r\n$body");
}
