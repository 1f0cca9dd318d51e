# Howdah::Templates has each engine compile its templates, so that it renders them later without compiling again; and
# says in which file and line a template is broken.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Templates qw(precompile);
use Howdah::Test::File qw(write_file);
use Test::More;

# For each engine: how it is made for a directory, how it renders a template, what tells that it compiles, the templates,
# and one that is broken in its line 3.
my %engine = (
    'Text::Xslate' => {
        make    => sub { Text::Xslate->new(path => "$_[0]", cache_dir => "$_[0].cache") },
        render  => sub { $_[0]->render($_[1], {name => 'world'}) },
        counter => 'Text::Xslate::Compiler::compile',
        text    => 'Hello <: $name :>',
        broken  => "one\ntwo\n<: \$name( :>\n",
    },
    'Template' => {
        make    => sub { Template->new(INCLUDE_PATH => "$_[0]") },
        render  => sub { $_[0]->process($_[1], {name => 'world'}, \my $out) or die $_[0]->error; $out },
        counter => 'Template::Parser::parse',
        text    => 'Hello [% name %]',
        broken  => "one\ntwo\n[% IF %]\n",
    },
    'HTML::Template' => {
        make    => sub { 'HTML::Template' },
        options => sub { {path => ["$_[0]"]} },
        render  => sub {
            my $page = HTML::Template->new(path => ["$_[2]"], cache => 1, filename => $_[1]);
            $page->param(name => 'world');
            return $page->output;
        },
        counter => 'HTML::Template::_parse',
        text    => 'Hello <TMPL_VAR NAME="name">',
        broken  => "one\ntwo\n</TMPL_IF>\n",
    },
    'Mojo::Template' => {
        make    => sub { Mojo::Template->new(vars => 1) },
        render  => sub { $_[0]->render($_[1], {name => 'world'}) },
        counter => 'Mojo::Template::parse',
        text    => 'Hello <%= $name %>',
        broken  => "one\n%= \$name\n% my \$x = ;\n",
    },
    'Mojolicious' => {
        make => sub {
            my $app = Mojolicious->new(secrets => ['x']);
            $app->log->level('error');
            $app->renderer->paths(["$_[0]"]);
            $app->renderer->cache->max_keys(1);
            return $app;
        },
        render => sub {
            my ($app, $name) = @_;
            return $app->build_controller->render_to_string($name =~ s/\.html\.ep\z//r, name => 'world');
        },
        counter => 'Mojo::Template::parse',
        suffix  => '.ep',
        text    => '% title "x"; # a helper' . "\n" . 'Hello <%= $name %>',
        broken  => "one\n%= \$name\n% my \$x = ;\n",
    },
    'Text::MicroTemplate::File' => {
        make    => sub { Text::MicroTemplate::File->new(include_path => ["$_[0]"], use_cache => 1) },
        render  => sub { $_[0]->render_file($_[1], 'world')->as_string },
        counter => 'Text::MicroTemplate::parse',
        text    => 'Hello <?= $_[0] ?>',
        broken  => "one\ntwo\n? my \$x = ;\n",
    },
);

for my $name (sort keys %engine) {
    my %case = %{$engine{$name}};
    subtest $name => sub {
        eval "require $name" or plan skip_all => "$name is not installed";    ## no critic (ProhibitStringyEval)
        my $top    = File::Temp->newdir;
        my $dir    = "$top/templates";
        my $suffix = '.html' . ($case{suffix} // '');
        my @names  = map { $_ . $suffix } qw(one two shop/cart);
        write_file("$dir/$_", $case{text}) for @names;
        write_file("$dir/notes.txt", $case{broken});

        my $options = $case{options} ? $case{options}->($dir) : {};
        my $engine  = precompile($case{make}->($dir), dir => $dir, match => qr/\.html/, options => $options);
        is((Howdah::Templates->report)[-1], "compiled 3 templates of $name below $dir before the fork\n", 'counted');

        my $compiled = 0;
        no strict 'refs';
        no warnings 'redefine';
        my $original = \&{$case{counter}};
        local *{$case{counter}} = sub { $compiled++; goto &$original };
        like($case{render}->($engine, $_, $dir), qr/\A\s*Hello world\s*\z/, "$_ is rendered") for @names;
        is($compiled, 0, 'without compiling');

        my $place = write_file("$dir/shop/bad$suffix", $case{broken});
        ok(!eval { precompile($case{make}->($dir), dir => $dir, match => qr/\.html/, options => $options) }, 'refused');
        like($@, qr/\A\Q$place\E line [34]: \S.*\n\z/, 'with file and line') or diag $@;
        cmp_ok($compiled, '>=', 1, 'and the counter counts');
    };
}

subtest 'a changed template is seen without a restart' => sub {
    for my $name (sort keys %engine) {
        next if $name eq 'Mojolicious' || !eval "require $name";    ## no critic (ProhibitStringyEval)
        my %case = %{$engine{$name}};
        my $top  = File::Temp->newdir;
        my $file = write_file("$top/t/one.html", $case{text});
        utime 1e9, 1e9, $file;
        no warnings 'once';
        local $Template::Provider::STAT_TTL = -1;
        my $engine = precompile(
            $case{make}->("$top/t"), dir => "$top/t",
            options                      => $case{options} ? $case{options}->("$top/t") : {}
        );
        write_file($file, "changed $case{text}");
        like($case{render}->($engine, 'one.html', "$top/t"), qr{^changed Hello world}, $name);
    }
};

done_testing;
