# Howdah::Loader loads what plackup loads, and says what is wrong with the rest.
use strict;
use warnings;

use File::Temp ();
use Howdah::Loader;
use Test::More;

my $dir = File::Temp->newdir;

sub file {
    my ($name, $text) = @_;
    open my $out, '>', "$dir/$name" or die "cannot write $name: $!";
    print {$out} $text;
    close $out or die "cannot write $name: $!";
    return "$dir/$name";
}

sub body {
    my ($app, %env) = @_;
    return join '', @{$app->({PATH_INFO => '/', SCRIPT_NAME => '', %env})->[2]};
}

sub load { return Howdah::Loader->load(env => 'deployment', @_) }

my $hello = file('hello.psgi', q{sub { [200, [], ["$ENV{PLACK_ENV} $_[0]{SCRIPT_NAME} $_[0]{PATH_INFO}"]] }});
file('Local.pm', q{package Local; my @list; sub import { shift; @list = @_ } sub imported { [@list] } 1});
file('MyApp.pm', q{package MyApp; sub { [200, [], ['a module']] }});

is(body(load(app  => $hello)), 'deployment  /', 'a file');
is(body(load(app  => $hello, env  => 'production')), 'production  /', 'env becomes PLACK_ENV');
is(body(load(app  => 'MyApp', inc => ["$dir"])), 'a module', 'a module found by inc');
is(body(load(eval => q{sub { [200, [], ['code']] }})), 'code', 'eval alone');

my $wrapped = q{enable sub { my $app = shift; sub { my $r = $app->(@_); unshift @{$r->[2]}, 'in: '; $r } }};
is(body(load(eval => $wrapped, app           => $hello)), 'in: deployment  /', 'eval around a file is a builder block');
is(body(load(eval => "$wrapped # noted", app => $hello)), 'in: deployment  /', '... also when a comment ends it');

load(app => $hello, inc => ["$dir"], modules => ['Local=a,b']);
is_deeply(Local->imported, ['a', 'b'], 'modules are imported with their list');

{
    local $0 = 'howdah: zygote app.psgi generation 1';
    file('Other.pm', q{package Other; sub { }});
    file('Program.pm', q{package Program; my $name; sub import { $name = $0 } sub name { $name } 1});
    my $name = sub { load(@_, inc => ["$dir"], modules => ['Program']); return Program->name };
    is $name->(app  => $hello), $hello, '$0 is the application for modules that are loaded before it';
    is $name->(app  => $hello, eval => 'Program->import;'), $hello, '... and for code around it';
    is $name->(eval => 'sub { }'), '-e', 'for code alone it is no file, as with perl -e';
    is $name->(app  => 'Other'), '-e', 'nor for an application that is a module';
    is $0, 'howdah: zygote app.psgi generation 1', 'the title is as it was';
}

my $mounted = load(app => $hello, path => '/shop');
is(body($mounted, PATH_INFO => '/shop/cart'), 'deployment /shop /cart', 'path mounts the application');
is($mounted->({PATH_INFO => '/', SCRIPT_NAME => ''})->[0], 404, 'and nothing else');

my $component = file('component.psgi', q{package Thing; sub to_app { sub { [200, [], ['component']] } } bless {}});
is(body(load(app => $component)), 'component', 'an object with to_app');
my $callable = file(
    'callable.psgi',
    q{package Call; use overload fallback => 1, '&{}' => sub { sub { [200, [], ['called']] } }; bless []}
);
is(body(load(app => $callable)), 'called', 'an object that is called as a sub is');

mkdir "$dir/lib" or die $!;
mkdir "$dir/lib/Shop" or die $!;
file('lib/Shop/Cart.pm', '1');

my @broken = (
    [{app => "$dir/none.psgi"}, qr/none\.psgi: No such file/, 'a missing file'],
    [
        {app => file('open.psgi', 'sub {')}, qr/open\.psgi: Missing right curly.*line 1/s,
        'a syntax error, with its place'
    ],
    [
        {app => file('need.psgi', 'use Nope::Nope; sub {}')},
        qr{\A(?!.*-I)[^\n]*Can't locate Nope/Nope\.pm}s,
        'a missing module'
    ],
    [
        {app => file('shop.psgi', 'use Shop::Cart; sub {}')},
        qr{Can't locate Shop/Cart\.pm .*^\Q$dir\E/lib/Shop/Cart\.pm is there: start with -I \Q$dir\E/lib\n\z}ms,
        'a module in lib beside the file'
    ],
    [
        {app => $hello, modules => ['Howdah::Test::Nowhere']},
        qr{Can't locate Howdah/Test/Nowhere\.pm}, 'a missing module of -M'
    ],
    [{app => file('number.psgi', '42')}, qr/number\.psgi does not return a PSGI application: .* not '42'/, 'a number'],
    [{app => file('hash.psgi', '+{}')}, qr/not HASH/, 'a hash'],
    [
        {eval => 'sub {'}, qr/(?:syntax error|Missing right).* at -e line/,
        'broken code, which is called as perl calls it'
    ],
    [{eval => "# first\ndie 'so'"}, qr/^so at -e line 2\.$/, 'code that dies, with its line'],
    [{app  => $hello, modules => ['Nope']}, qr{Can't locate Nope\.pm}, 'a missing module asked for by -M'],
);
for my $case (@broken) {
    my ($wish, $message, $name) = @$case;
    is(eval { load(%$wish) }, undef, "$name is refused");
    like($@, $message, '... and named');
}

chdir $dir or die $!;
file('myshop', 'sub {}');
for my $case (['', 'nothing'], [" \n", 'nothing'], ['0', 'what is false'], ['enable "Head"; undef', 'what is false']) {
    my ($code, $instead) = @$case;
    is(eval { load(eval => $code) }, undef, "-e '$code' is refused");
    is(
        $@,
        "the code given by -e does not return a PSGI application: it must end in a code reference, not in $instead\n",
        '... for what it is'
    );
}
is(body(load(eval => 'mount "/" => sub { [200, [], ["mounted"]] }')), 'mounted', 'mounts are an application');
is(body(load(eval => '', app => $hello)), 'deployment  /', 'code that does nothing wraps one as well');

is(eval { load(app => 'myshop') }, undef, 'a file without a suffix is taken for a module');
like($@, qr{^myshop is a file here: write \./myshop$}m, '... and the message says how to write it');
file('shop.psgi', 'sub {}');
is(eval { load(app => 'shop') }, undef, 'so is one whose suffix is left out');
like($@, qr{^there is shop\.psgi here: write shop\.psgi$}m, '... which the message says, too');
is(eval { load(app => 'nothing') }, undef, 'what is neither file nor module is refused');
like($@, qr/\A[^\n]*nothing\.pm: No such file[^\n]*\n\z/, '... and named');
chdir '/' or die $!;

done_testing;
