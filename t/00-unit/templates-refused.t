# What Howdah::Templates cannot compile, and the way out that it tells.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Templates qw(precompile);
use Howdah::Test::File qw(write_file);
use Test::More;

subtest 'what it cannot do, and the way out' => sub {
    my $top = File::Temp->newdir;
    write_file("$top/a/one.html", 'one');
    no warnings 'once';
    local *Local::Engine::new = sub { return bless {}, shift };
    my @cases = (
        [['Local::Engine', dir    => "$top/a"], qr/^precompile knows no engine 'Local::Engine'/],
        [[Local::Engine->new, dir => "$top/a"], qr/^precompile knows no engine Local::Engine/],
        [['Template'], qr/^precompile needs a dir/],
        [[undef, dir      => "$top/a"], qr/^precompile needs an engine/],
        [['Template', dir => "$top/a", matches => 1], qr/^precompile takes dir, match and options, not matches/],
    );
    push @cases, (
        [['Template', dir => "$top/none"], qr/there is no directory \Q$top\E\/none/],
        [['Template', dir => "$top/a", match   => qr/\.none/], qr/no file below \Q$top\E\/a matches/],
        [['Template', dir => "$top/a", options => {INCLUDE_PATH => "$top/b"}], qr/would not find .* looks into \Q$top/],
        [['Template', dir => "$top/a", options => {INCLUDE_PATH => $top, CACHE_SIZE => 2}], undef],
    ) if eval { require Template };
    for my $case (@cases) {
        my ($arguments, $message) = @$case;
        my $done = eval { precompile(@$arguments) };
        $message ? like($@, $message) : ok($done) || diag $@;
    }
    my $hidden = write_file("$top/hidden.pl", <<'PERL');
    use Howdah::Templates qw(precompile);
    unshift @INC, sub { die "Can't locate $_[1] in \@INC\n" if $_[1] eq 'Text/Xslate.pm'; return };
    precompile('Text::Xslate', dir => '.');
PERL
    my @inc = map { "-I$_" } grep { !ref } @INC;
    open my $said, '-|', "$^X @inc $hidden 2>&1" or die $!;
    like(join('', <$said>), qr/^Text::Xslate is not installed: Debian has it in libtext-xslate-perl,/, 'the package');
};

subtest 'what Template Toolkit does not keep' => sub {
    eval { require Template } or plan skip_all => 'Template Toolkit is not installed';
    my $dir = File::Temp->newdir;
    write_file("$dir/$_.html", 'text') for 1 .. 3;
    my $with = sub {
        return eval { precompile('Template', dir => "$dir", options => {INCLUDE_PATH => "$dir", @_}) }
    };
    ok(!$with->(CACHE_SIZE => 2), 'a cache for fewer templates is refused');
    like($@, qr/^CACHE_SIZE of Template is 2, less than the 3 templates to keep/);
    ok($with->(CACHE_SIZE => 0), 'none is not');
    like(
        (Howdah::Templates->report)[-1],
        qr/^checked 3 templates of Template below \S+; the engine is set to keep none$/
    );
};

subtest 'a template that may not be read is named, and no line of the code that reads it' => sub {
    my $top = File::Temp->newdir;
    write_file("$top/$_", 'text') for qw(open.html closed.html);
    chmod 0755, "$top" or die $!;
    chmod 0, "$top/closed.html" or die $!;
    local $> = 65_534 if $> == 0;    # root may read everything
    plan skip_all => 'who runs this may read everything' if -r "$top/closed.html";
    for my $engine (qw(HTML::Template Template)) {
        eval { precompile($engine, dir => "$top", options => {INCLUDE_PATH => "$top"}); 1 };
        like $@, qr{^(?:\Q$top\E/closed\.html: cannot be read: Permission denied|$engine is not installed:.*)\n\z},
            $engine;
    }
};

subtest 'which files' => sub {
    eval { require Template } or plan skip_all => 'Template Toolkit is not installed';
    my $top = File::Temp->newdir;
    write_file("$top/a/$_", 'text') for qw(one.html sub/two.html sub/notes.txt .git/three.html .four.html);
    symlink "$top/a", "$top/current" or die $!;
    symlink "$top/a/sub", "$top/a/linked" or die $!;
    symlink "$top/a", "$top/a/sub/loop" or die $!;
    symlink "$top/a/missing", "$top/a/five.html" or die $!;
    my $tt    = precompile('Template', dir => "$top/current", options => {INCLUDE_PATH => "$top/current"});
    my @found = sort map { s{^\Q$top\E/current/}{}r } keys %{$tt->context->load_templates->[0]{LOOKUP}};
    is_deeply(\@found, [qw(linked/two.html one.html sub/two.html)], 'through links, none hidden, none twice');
};

done_testing;
