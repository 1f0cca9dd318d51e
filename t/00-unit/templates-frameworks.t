# Howdah::Templates reaches engines through what frameworks wrap around them.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Templates qw(precompile);
use Howdah::Test::File qw(write_file);
use Test::More;

subtest 'engines inside of frameworks' => sub {
    my $top = File::Temp->newdir;
    write_file("$top/$_", 'Hello [% name %]') for qw(one.tt layouts/main.tt);
    if (eval { require Dancer2; require Template; require Dancer2::Template::TemplateToolkit; 1 }) {
        my $view = Dancer2::Template::TemplateToolkit->new(views => "$top", config => {});
        precompile($view, dir => "$top");
        my $compiled = 0;
        no warnings 'redefine';
        local *Template::Parser::parse = sub { $compiled++ };
        is($view->render($view->view_pathname('one'), {name => 'world'}), "Hello world\n", 'Dancer2');
        is($compiled, 0, 'does not compile again');
    }
    if (eval q{package Local::App; use Catalyst; __PACKAGE__->setup; require Catalyst::View::TT})
    {    ## no critic (ProhibitStringyEval)
        my $view = Catalyst::View::TT->new('Local::App', {INCLUDE_PATH => ["$top"]});
        precompile($view, dir => "$top");
        my $compiled = 0;
        no warnings 'redefine';
        local *Template::Parser::parse = sub { $compiled++ };
        is($view->render(undef, 'one.tt', {name => 'world'}), "Hello world\n", 'Catalyst');
        is($compiled, 0, 'does not compile again');
    }
    pass('as far as they are installed');
};

done_testing;
