# Howdah::Kit asks every template engine in its own way, and says whose fault it is when there is no text.
use strict;
use utf8;
use warnings;

use File::Temp ();
use Howdah::Kit;
use Test::More;

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output);
my $dir = File::Temp->newdir;

sub file {
    my ($name, $text) = @_;
    open my $out, '>:encoding(UTF-8)', "$dir/$name" or die $!;
    print {$out} $text;
    close $out or die $!;
    return "$dir/$name";
}

file('xslate.tx', 'é <: $name :>');
file('toolkit.tt', 'é [% name %]');
file('broken.tt', '[% IF %]');
file('micro.mt', 'é <?= $_[0]->{name} ?>');
file('mojo.ep', 'é <%= $name %>');
file('broken.ep', 'é <%= $nothing_of_that_name %>');

# Engine, how it is made, the name of a template.
my @engines = (
    ['Text::Xslate', sub { $_[0]->new(path => ["$dir"], cache => 0) }, 'xslate.tx'],
    ['Template', sub { $_[0]->new(INCLUDE_PATH => "$dir", ENCODING => 'UTF-8') }, 'toolkit.tt'],
    ['Text::MicroTemplate::File', sub { $_[0]->new(include_path => ["$dir"]) }, 'micro.mt'],
    ['Mojo::Template', sub { $_[0]->new(vars => 1) }, "$dir/mojo.ep"],
);
for my $case (@engines) {
    my ($class, $make, $name) = @$case;
    subtest $class => sub {
        eval "require $class; 1" or plan skip_all => "$class is not installed";    ## no critic (ProhibitStringyEval)
        my $core = Howdah::Kit->core(templates => $make->($class));
        is $core->get_content($name, {name => 'Zoë'}) =~ s/\n\z//r, 'é Zoë';
        ok !eval { $core->get_content('none.of.these', {}); 1 }, 'a template that is not there';
        like $@, qr/none\.of\.these/, 'is named';
    };
}

subtest 'what does not compile is an error, whether thrown, returned or kept' => sub {
    for my $case (
        [$engines[1], 'broken.tt', qr/the template broken\.tt: file error/],
        [$engines[3], "$dir/broken.ep", qr/nothing_of/]
        )
    {
        my ($engine, $name, $says) = @$case;
        eval "require $engine->[0]; 1" or next;    ## no critic (ProhibitStringyEval)
        my $core = Howdah::Kit->core(templates => $engine->[1]->($engine->[0]));
        ok !eval { $core->get_content($name, {}); 1 }, $name;
        like $@, $says;
    }
};

subtest 'Mojo::Template blames the file that is wrong' => sub {
    eval { require Mojo::Template; 1 } or plan skip_all => 'Mojo::Template is not installed';
    my $core = Howdah::Kit->core(templates => Mojo::Template->new(vars => 1));
    $core->get_content("$dir/mojo.ep", {name => 'Zoë'});
    ok !eval { $core->get_content("$dir/broken.ep", {}); 1 };
    like $@, qr{ at \Q$dir\E/broken\.ep line 1}, 'not the one that came first';
};

subtest 'a sub is an engine, too' => sub {
    my $core = Howdah::Kit->core(templates => sub { my ($name, $with) = @_; return $with->{n} && "$name $with->{n}" });
    is $core->get_content('x', {n => 1}), 'x 1';
    ok !eval { $core->get_content('x') };
    is $@, "the template x gave nothing\n";
};

subtest 'pages' => sub {
    my $app = Howdah::Kit->build(
        sub { my $c = shift; return $c->render('x', {name => 'é'}) },
        templates => sub { return "<p>$_[1]{name}" },
    );
    my $env      = {REQUEST_METHOD => 'GET', PATH_INFO => '/', QUERY_STRING => ''};
    my $response = $app->($env);
    is_deeply $response->[2], ["<p>\xc3\xa9"], 'encoded once';
    is $app->core->get_content('x', {name => 'é'}), '<p>é', "the application's own core";
};

done_testing;
