# What it is worth to compile templates before the fork: 10 workers, 200 templates of 10 KB, with and without
# Howdah::Templates, for each engine. Prints a table for docs/templates.md.
#
#   make build && perl -Mblib bench/templates.pl [--rounds N] [ENGINE ...]
#
# Each worker renders each template twice at least: all are asked at the same time, and render one after the other under a
# lock, so that they do not disturb each other. "first" is what a worker takes for a template that it has not rendered
# yet, "then" for one that it has (median, in the application); "start" is what the zygote has taken when the server
# serves. All three are processor time, so that others on the machine do not count. "memory" is the proportional set size
# of all workers at the end, "own" what is of one worker alone.
#
# All is measured anew in each of five rounds, one after the other, so that what changes on the machine changes all alike.
# A figure is the median of the rounds, and how far the farthest was from it.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Getopt::Long qw(GetOptions);
use Howdah::Test::Client;
use Howdah::Test::Server;
use List::Util qw(max);

use constant {WORKERS => 10, TEMPLATES => 200, SIZE => 10_000};

my $head = 'use Howdah::Templates qw(precompile); my ($dir, $early) = @ENV{qw(BENCH_DIR BENCH_EARLY)};';

# For each engine: what a template says of one line, and the application up to a sub that renders by name.
my %engine = (
    'Text::Xslate' => [
        '<: if $on { :><b><: $name :></b><: } :>',
        'use Text::Xslate; my $e = Text::Xslate->new(path => $dir, cache_dir => "$dir.$$");',
        'precompile($e, dir => $dir);',
        '$e->render("$_[0].html", $_[1])',
    ],
    'Template Toolkit' => [
        '[% IF on %]<b>[% name %]</b>[% END %]',
        'use Template; use Template::Parser; my $e = Template->new(INCLUDE_PATH => $dir, STAT_TTL => 3600);',
        'precompile($e, dir => $dir);',
        'do { $e->process("$_[0].html", $_[1], \my $out) or die $e->error; $out }',
    ],
    'HTML::Template' => [
        '<TMPL_IF NAME="on"><b><TMPL_VAR NAME="name"></b></TMPL_IF>',
        'use HTML::Template; my %o = (path => [$dir], cache => 1);',
        'precompile("HTML::Template", dir => $dir, options => \%o);',
        'do { my $e = HTML::Template->new(%o, filename => "$_[0].html"); $e->param($_[1]); $e->output }',
    ],
    'Mojo::Template' => [
        '<% if ($on) { %><b><%= $name %></b><% } %>',
        'use Mojo::Template; my $e; my %o = (vars => 1, auto_escape => 1);',
        '$e = precompile("Mojo::Template", dir => $dir, options => \%o);',
        '($e ? $e->render("$_[0].html", $_[1]) : Mojo::Template->new(%o)->render_file("$dir/$_[0].html", $_[1]))',
    ],
    'Mojolicious' => [
        '<% if ($on) { %><b><%= $name %></b><% } %>',
        'use Mojolicious; my $e = Mojolicious->new(mode => "production"); $e->renderer->paths([$dir]);'
            . '$e->renderer->cache->max_keys(1000);',
        'precompile($e, dir => $dir);',
        '$e->build_controller->render_to_string($_[0], %{$_[1]})',
    ],
    'Text::MicroTemplate' => [
        '<? if ($_[0]{on}) { ?><b><?= $_[0]{name} ?></b><? } ?>',
        'use Text::MicroTemplate::File; my $e = Text::MicroTemplate::File->new(include_path => [$dir], use_cache => 1);',
        'precompile($e, dir => $dir);',
        '$e->render_file("$_[0].html", $_[1])->as_string',
    ],
);

sub write_templates {
    my ($dir, $line) = @_;
    mkdir $dir or die "cannot make $dir: $!";
    for my $number (1 .. TEMPLATES) {
        for my $suffix ('html', 'html.ep') {
            open my $out, '>', "$dir/$number.$suffix" or die $!;
            my $text = '';
            $text .= "<p>Line of template $number, which stands for text as pages have it: $line</p>\n"
                while length $text < SIZE;
            print {$out} $text;
            close $out or die $!;
        }
    }
    return;
}

# The application tells which worker answered, whether that had rendered this template before, and how long it took.
sub application {
    my ($load, $precompile, $render, $is_mojolicious) = @_;
    my $match = $is_mojolicious ? 'html\.ep' : 'html';
    $precompile =~ s/\);\z/, match => qr{\\.$match\\z})/;
    return <<"PSGI";
$head $load $precompile if \$early;
use Fcntl 'LOCK_EX';
use Time::HiRes qw(CLOCK_PROCESS_CPUTIME_ID clock_gettime sleep);
my \%seen;
sub {
    my (\$number) = \$_[0]{PATH_INFO} =~ /(\\d+)/;
    open my \$lock, '<', "\$dir/1.html" or die;
    flock \$lock, LOCK_EX or die;
    sleep 0.001;    # so that nobody is done before all have begun
    my \$start = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    my \$body = do { local \@_ = (\$number, {on => 1, name => 'world'}); $render };
    my \$took = 1000 * (clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - \$start);
    utf8::encode(\$body);
    [200, ['X-Seen' => "\$\$ " . \$seen{\$number}++ . " \$took"], [\$body]];
};
PSGI
}

sub median {
    my @sorted = sort { $a <=> $b } @_;
    return $sorted[@sorted / 2] // 0;
}

sub memory {
    my %sum;
    for my $pid (@_) {
        open my $in, '<', "/proc/$pid/smaps_rollup" or die "cannot read memory of $pid: $!";
        while (my $line = <$in>) {
            next if $line =~ /^Pss_/;
            my ($what, $size) = $line =~ /^(Pss|Private)(?:_Clean|_Dirty)?:\s+(\d+) kB/ or next;
            $sum{$what} += $size / 1024;
        }
    }
    return ($sum{Pss}, $sum{Private} / @_);
}

# Asks until all workers have answered for each template, and once more.
sub visit {
    my $server  = shift;
    my @clients = map { Howdah::Test::Client->new($server) } 1 .. WORKERS;
    my %times;
    for my $number (1 .. TEMPLATES) {
        my (%workers, $more);
        for (1 .. 20) {
            $_->write("GET /$number HTTP/1.1\r\nHost: x\r\n\r\n") for @clients;
            for my $client (@clients) {
                my $answer = $client->response;
                die "status $answer->{status}: $answer->{body}" if $answer->{status} != 200;
                my ($worker, $seen, $took) = split ' ', $answer->{headers}{'x-seen'}[0];
                push @{$times{$seen ? 'then' : 'first'}}, $took;
                $workers{$worker} = 1;
            }
            last if $more;
            $more = keys %workers == WORKERS;
        }
    }
    return \%times;
}

# Seconds of a processor that these processes have taken.
sub processor {
    my $sum = 0;
    for my $pid (@_) {
        open my $in, '<', "/proc/$pid/schedstat" or die "cannot read what $pid has taken: $!";
        $sum += (split ' ', <$in>)[0] / 1e9;
    }
    return $sum;
}

# In the order of the columns.
sub measure {
    my ($name, $early) = @_;
    my ($line, @code)  = @{$engine{$name}};
    my $top = File::Temp->newdir;
    write_templates("$top/t", $line);
    my $server = Howdah::Test::Server->launch(
        app     => application(@code, $name eq 'Mojolicious'),
        options => ['--workers', WORKERS],
        env     => {BENCH_DIR => "$top/t", BENCH_EARLY => $early}
    );
    $server->wait_for_log(qr/try  curl/, 300) or die "the server did not start:\n" . $server->log;
    my $start = processor($server->processes('zygote'));
    my $times = visit($server);
    my @sizes = memory($server->workers);
    $server->stop;
    return [$start, median(@{$times->{first}}), median(@{$times->{then}}), @sizes];
}

# The median, and how far the farthest is from it.
sub summary {
    my ($digits, @values) = @_;
    my $middle = median(@values);
    my $spread = $middle ? max(map { abs $_ - $middle } @values) / $middle : 0;
    return sprintf "%.${digits}f ±%.0f%%", $middle, 100 * $spread;
}

sub row {
    my ($title, @rounds) = @_;
    my @digits = (1, 2, 2, 1, 1);
    my @cells  = map {
        my $column = $_;
        summary($digits[$column], map { $_->[$column] } @rounds)
    } 0 .. $#digits;
    return join(' | ', "| $title", @cells) . ' |';
}

sub load {
    open my $in, '<', '/proc/loadavg' or die $!;
    return (split ' ', <$in>)[0];
}

GetOptions('rounds=i' => \(my $rounds = 5)) or die "usage: bench/templates.pl [--rounds N] [ENGINE ...]\n";
my @names = @ARGV ? @ARGV : sort keys %engine;
my (%found, @loads);
$| = 1;
for my $round (1 .. $rounds) {
    alarm 1200;    # this long for a round
    push @loads, load();
    for my $name (@names) {
        for my $early (0, 1) {
            my $figures = measure($name, $early);
            print {*STDERR} join(' ', "round $round: $name", $early ? 'precompiled' : 'not', @$figures), "\n";
            push @{$found{$name}{$early}}, $figures;
        }
    }
}

print "$rounds rounds; load average at the start of each: @loads\n";
print "| engine | precompiled | start, s | first, ms | then, ms | memory, MB | own, MB |\n";
print "|---|---|---:|---:|---:|---:|---:|\n";
for my $name (@names) {
    print row("$name | $_->[1]", @{$found{$name}{$_->[0]}}), "\n" for [0, 'no'], [1, 'yes'];
}
