# What the pages name is there: links lead to a file and a heading of it, where they are installed, too; options and variables are
# howdah's (or another program's, named below), commands are understood, files are in the tree, and a decision has the number that it
# is called by.
use strict;
use warnings;
use lib 't/lib';

use File::Basename qw(dirname);
use Howdah::Test::Command qw(run_howdah);
use Howdah::Test::File qw(read_file);
use Test::More;
use Text::ParseWords qw(shellwords);

my @pages = (glob('*.md'), glob('docs/*.md'), glob('docs/decisions/*.md'), 'deploy/README.md');
cmp_ok scalar @pages, '>', 60, 'pages';
my %text = map { $_ => read_file($_) } @pages;

# A path without its . and .. ; of what lies above the tree nothing is left.
sub plain {
    my $path = shift;
    1 while $path =~ s{(?:^|(?<=/))(?:\.(?:/|$)|[^/]+/\.\.(?:/|$))}{};
    return $path;
}

# What a link to a heading has behind its #, as GitHub makes it.
sub anchor {
    my $heading = lc shift =~ s/\[([^]]*)\]\([^)]*\)/$1/gr;
    return $heading =~ s/[^\w -]//gr =~ tr/ /-/r;
}
my %headings;
for my $page (@pages) {
    $headings{$page}{anchor($1)} = 1 while $text{$page} =~ /^#+ (.+)/mg;
}

subtest 'links lead somewhere' => sub {
    my ($links, @broken) = 0;
    for my $page (@pages) {
        while ($text{$page} =~ /\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)/g) {
            my ($file, $heading) = ($1, $2);
            my $to = length $file ? plain(dirname($page) . "/$file") : $page;
            $links++;
            push @broken, "$page: $file" if !-e $to;
            push @broken, "$page: $file#$heading" if defined $heading && !$headings{$to}{$heading};
        }
    }
    cmp_ok $links, '>', 150, 'links';
    is "@broken", '', 'all of them';
};

# tools/install: docs/ goes to share/doc/howdah, and deploy/ and examples/ below it; nothing else does.
subtest 'what is installed leads to what is installed' => sub {
    my ($links, @away) = 0;
    for my $page (grep { m{/} } @pages) {
        while ($text{$page} =~ /\]\((?!\w+:)([^)#\s]+)/g) {
            my $to = plain(dirname($page) . "/$1");
            $links++;
            push @away, "$page: $to" if $to !~ m{^(?:docs|deploy|examples)/};
        }
    }
    cmp_ok $links, '>', 120, 'links';
    is "@away", '', 'all of them';
};

subtest 'decisions have the numbers that they are called by' => sub {
    my %is = map { 0 + $_ => 1 } map { m{/(\d+)-} } @pages;
    my ($named, @wrong) = 0;
    for my $page (@pages) {
        $named++, 0 + $1 == $2 || push @wrong, "$page: decision $1 is $2"
            while $text{$page} =~ m{\[(?:decision )?(\d+)\]\((?:[\w./]*/)?(\d+)-}g;
        $named++, $is{0 + $1} || push @wrong, "$page: there is no decision $1"
            while $text{$page} =~ /\bdecision (\d+)\b/g;
    }
    cmp_ok $named, '>', 30, 'decisions';
    is "@wrong", '', 'all of them';
};

# Options of others that pages tell of: of programs that are run beside howdah, and of its own development.
my %others = map { $_ => 1 } qw(
    --add-x-forwarded-for --blib --cap-add --enable-ssl --file --harakiri --keepalive --http2-prior-knowledge --init --launcher-fd --lib --no-default-features
    --only --package --pid-file --rounds --strip-incoming-x-forwarded-for --tests --zygote-fd --zygote-pid --h1 --http --tls
);
my %known = map { $_ => 1 } map { /(?<![\w-])(--[a-z][a-z\d-]+)/g } map { (run_howdah(@$_, '--help'))[1] } [],
    map { [$_] } qw(heap leaks profile reload status stop top trace where workers);

subtest 'options are there' => sub {
    my ($options, @unknown) = 0;

    # What the options of other servers are here has a test of its own: coming-from.t.
    my @files = grep { !m{benchmarks|coming-from|decisions/} } @pages;
    for my $file (@files, 'lib/Howdah.pm', 'lib/Plack/Handler/Howdah.pm', glob 'lib/Howdah/*.pm') {
        for my $option (read_file($file) =~ /(?<![\w-])(--[a-z][a-z\d-]+)/g) {
            $options++;
            push @unknown, "$file: $option" if !$known{$option} && !$others{$option};
        }
    }
    cmp_ok $options, '>', 500, 'options';
    is "@unknown", '', 'all of them';
};

# The words up to the next command of the shell, or where its output goes.
sub words {
    my @words;
    for my $word (grep { defined } shellwords(shift =~ s/ {2,}#.*//r)) {
        last if $word =~ /^(?:&&?|[|;]|\d?>.*)$/;
        push @words, $word =~ s/;$//r;
        last if $word =~ /;$/;
    }
    return @words;
}

# Each is asked for its help: so all that stands before is read, and nothing done.
subtest 'commands are understood' => sub {
    my ($commands, @wrong) = 0;
    for my $page (grep { !m{benchmarks|decisions/|ARCHITECTURE} } @pages) {
        my $text  = $text{$page} =~ s/\\\n\s*/ /gr;
        my @lines = (
            $text =~ m{^ {4}(?:[#\$] )?(?:[A-Z_\d]+=\S+ )*(?:sudo )?(?:\./bin/)?howdah (?! )(.*)}mg,
            $text =~ /`(?:sudo )?howdah ([^`]*)`/g
        );
        for my $line (@lines) {
            my ($status, undef, $err) = run_howdah(words($line), '--help');
            $commands++;
            push @wrong, "$page: howdah $line: $err" if $status;
        }
    }
    cmp_ok $commands, '>', 150, 'commands';
    is "@wrong", '', 'all of them';
};

subtest 'variables are there' => sub {
    my %ours = map { ('HOWDAH_' . uc tr/-/_/r) => 1 } map { s/^--//r } keys %known;
    $ours{"HOWDAH_$_"} = 1 for qw(BIN CGI_HOST CHECK LOG PERL5LIB ZYGOTE);
    my @named = map {
        my $page = $_;
        map { [$page, $_] } $text{$page} =~ /\b(HOWDAH_[A-Z\d_]+)/g
    } @pages;
    cmp_ok scalar @named, '>', 20, 'variables';
    is join(' ', map { "$_->[0]: $_->[1]" } grep { !$ours{$_->[1]} } @named), '', 'all of them';
};

subtest 'files of the tree are there' => sub {
    my ($files, @missing) = 0;
    for my $page (@pages) {
        for my $file (
            $text{$page} =~ m{`((?:bench|crates|deploy|docs|examples|fuzz|lib|t|tools|xs|xs-fork)/[\w./*-]+)`}g)
        {
            $files++;
            my ($first) = glob $file;
            push @missing, "$page: $file" if !defined $first || !-e $first;
        }
    }
    cmp_ok $files, '>', 100, 'files';
    is "@missing", '', 'all of them';
};

done_testing;
