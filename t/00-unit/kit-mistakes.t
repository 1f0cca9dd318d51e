# Howdah::Kit says what is wrong with the words of whoever uses it, where they stand, and the way out.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Kit;
use Howdah::Test::Command qw(run_command);
use Test::More;

package Shop {    ## no critic (RequireFilenameMatchesPackage)
    our @ISA = ('Howdah::Kit');
    sub open_early { return Shop->build(hours => 9) }
}

my $dir    = File::Temp->newdir;
my $sub    = sub { 'x' };
my $here   = qr/ at \S*kit-mistakes\.t line \d+\.$/;
my $secret = 'x' x 16;

# What is done, and what is said.
my @cases = (
    [sub { Shop->open_early }, qr/^Shop has no option hours/],
    [sub { Howdah::Kit->build($sub, sesion => {}) }, qr/^Howdah::Kit has no option sesion: there are development, mid/],
    [sub { Shop->build('x') }, qr/^Shop->build takes pairs of name and value/],
    [sub { Howdah::Kit->build([]) }, qr/^an application is a sub, not a reference to ARRAY/],
    [sub { Howdah::Kit::build('Nothing', $sub) }, qr/^'Nothing' is not a class that inherits from Howdah::Kit: /],
    [sub { Shop->start(workers => 1) }, qr/^Shop->start starts what was built: Shop->psgi_app\(\.\.\.\)->st/],
    [sub { Shop->build(routes => {}) }, qr/^the option routes is a reference to an array/],
    [sub { Shop->build(routes => ['GET /']) }, qr/^routes are pairs/],
    [sub { Shop->build(routes => ['get x' => $sub]) }, qr/^'get x' is no route: write 'GET \/path'/],
    [sub { Shop->build(routes => ['GET /' => 'list']) }, qr/^the route 'GET \/' leads to the method list, which Shop/],
    [sub { Shop->build(routes => ['GET /' => []]) }, qr/^the route 'GET \/' must lead to a sub or the name/],
    [sub { Shop->build(middleware => ['NotThere']) }, qr/^the application wants the middleware NotThere: .*cpanm/],
    [sub { Shop->build(session    => 1) }, qr/^session is \{secret => TEXT\}/],
    [sub { Shop->build(session    => {}) }, qr/^session wants a secret .* or a store that all workers/],
    [sub { Shop->build(session    => {secret => 'short'}) }, qr/^the secret of sessions must have at least 16/],
    [sub { Shop->build(templates  => 'Template') }, qr/^templates must be an engine .* or a sub, not 'Template'/],
    [sub { Shop->core(dir => 1) }, qr/^core has no option dir: there is templates/],
    [sub { Shop->core->get_content('x') }, qr/^there is nothing to render templates: build with/],
    [sub { Shop->core(templates => $sub)->get_content }, qr/^which template\? get_content is given a name/],
    [
        sub { Shop->core(templates => $sub)->get_content('x', 1) },
        qr/^variables of a template are a reference to a hash/
    ],
    [sub { Shop->cache }, qr/^no application is kept as Shop .* Shop->build\(\.\.\.\)->cache run/],
    [sub { Shop->cache('till') }, qr/^no application is kept as till .*->cache\('till'\) run/],
    [
        sub { local $ENV{REQUEST_METHOD}; Shop->run },
        qr/^there is no request: this is a CGI script.* REQUEST_METHOD=GET/
    ],
    [sub { kit() }, qr/^kit is given a file: kit "hello\.psgi"/],
    [sub { kit("$dir/none.psgi") }, qr/^kit: there is no file \S+none\.psgi/],
    [sub { kit("$dir") }, qr/^kit: \S+ is not a file, but a directory/],
    [sub { kit($0, 'workers') }, qr/^kit takes pairs of option and value: workers => 10/],
    [sub { kit($0, workers => undef) }, qr/^the option workers has no value/],
    [sub { Shop->build->start('workers') }, qr/^start takes pairs of option and value/],
);
eval { require Router::Simple; 1 } or @cases = grep { $_->[1] !~ /route/ } @cases;

for my $case (@cases) {
    my ($code, $says) = @$case;
    ok !eval { $code->(); 1 }, $says;
    like $@, $says;
    like $@, $here;
}

# A perl that has none of the modules that are optional.
for my $case (
    ['routes => ["GET /" => sub {}]', 'Router::Simple', 'librouter-simple-perl', 'routes are matched by it'],
    [
        "session => {secret => '$secret'}", 'Plack::Middleware::Session::Cookie', 'libplack-middleware-session-perl',
        'sess'
    ],
    )
{
    my ($options, $module, $package, $why) = @$case;
    my $hide = 'BEGIN { unshift @INC, sub { return if $_[1] !~ m{^Router/Simple|Session}; '
        . 'return if $_[1] =~ /Kit/; die "Can\'t locate $_[1] in \@INC" } } ';
    my @perl = ($^X, '-e', $hide . "use Howdah::Kit; Howdah::Kit->build(sub {}, $options)");
    my ($status, undef, $err) = run_command(@perl);
    isnt $status, 0, "without $module";
    like $err, qr/^\Q$why\E.*\Q$module\E is not installed \(apt install \Q$package\E, or cpanm [\w:]+\) at -e line 1/;
    ($status, undef, $err) = run_command($^X, '-e', $hide . 'use Howdah::Kit; Howdah::Kit->build(sub {})');
    is "$status$err", 0, 'and nothing is loaded that is not used';
}

subtest 'in a file that a server loads, start is a mistake' => sub {
    my $file = "$dir/app.psgi";
    open my $out, '>', $file or die $!;
    print {$out} 'use Howdah::Kit; Howdah::Kit->psgi_app(sub {})->start(workers => 2);';
    close $out or die $!;
    require Howdah::Loader;
    ok !eval { Howdah::Loader->load(app => $file) };
    like $@, qr/a server is loading this file: let it end with psgi_app/;
};

done_testing;
