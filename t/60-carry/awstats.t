# AWStats, as Debian has it, with an access log of the test's own, which the browser has it read.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Carry;
use Test::More;

my $dir  = File::Temp->newdir;
my @ways = qw(wrapped exec fork keep);
my @log;
for my $hit (0 .. 299) {
    my $client = '192.0.2.' . $hit % 7;
    my $path   = $hit % 10 == 9 ? '/missing.html' : '/page' . $hit % 5 . '.html';
    my $status = $hit % 10 == 9 ? 404 : 200;
    my $time   = sprintf '%02d/Mar/2024:%02d:00:%02d +0000', 1 + $hit / 30, $hit % 30 / 2, $hit % 2;
    my $from   = $hit % 4 ? 'https://search.example.org/' : '-';
    push @log, qq{$client - - [$time] "GET $path HTTP/1.1" $status 1000 "$from" "Mozilla/5.0 (X11) Firefox/120.0"\n};
}
write_file('access.log', @log);
mkdir "$dir/$_" or die $! for @ways;
write_file("awstats.$_.conf", <<"CONF") for @ways;
LogFile="$dir/access.log"
LogFormat=1
SiteDomain="camels.example.org"
HostAliases="localhost"
DirData="$dir/$_"
DNSLookup=0
AllowToUpdateStatsFromBrowser=1
EnableLockForUpdate=1
UseFramesWhenCGI=0
CONF

sub write_file {
    my ($name, @text) = @_;
    open my $out, '>', "$dir/$name" or die "cannot write $name: $!";
    print {$out} @text;
    return close $out;
}

# What is asked of March, and what is told.
my @pages = (
    ['output=main', qr{Statistics.*camels\.example\.org}s],
    ['output=urldetail', qr{/page4\.html.*/page0\.html|/page0\.html.*/page4\.html}s],
    ['output=allhosts', qr/192\.0\.2\.6/],
    ['output=errors404', qr{/missing\.html}],
    ['output=browserdetail', qr/Firefox/],
);

Howdah::Test::Carry->new(
    program => '/usr/lib/cgi-bin/awstats.pl',
    at      => '/awstats',
    env     => {AWSTATS_ENABLE_CONFIG_DIR => "$dir"},
    says    => qr/it ended with exit status 1/,         # when it is asked for what is not configured
    ways    => \@ways,
)->walk(sub {
    my ($agent, $way) = @_;
    my $month = "?config=$way&configdir=$dir&year=2024&month=03";
    my $read  = $agent->get("?config=$way&configdir=$dir&update=1");
    is $read->code, 200, 'the log is read';
    ok -s "$dir/$way/awstats032024.$way.txt", 'and what it says is kept';
    for (@pages) {
        my ($what, $text) = @$_;
        my $got = $agent->get("$month&$what");
        is join(' ', $got->code, scalar $got->content_type), '200 text/html', $what;
        like $got->decoded_content, $text, 'what is in it';
    }
    like $agent->get("$month&output=main&lang=fr")->decoded_content, qr/Statistiques/, 'in French';
    like $agent->get("$month&output=main")->decoded_content, qr/Statistics/, 'and again in English';
    like $agent->get("?config=none&configdir=$dir")->content, qr/Couldn't open config file/,
        'what nobody has configured';
    like $agent->get('?config=none&configdir=/etc')->content, qr/is possible only if/, 'nor may ask for';
    like $agent->get("$month&output=%3Cscript%3E")->content, qr/^(?!.*<script>)/s, 'and what is no page';
});
