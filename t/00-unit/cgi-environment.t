# What a script that is kept sees of a request, as one that is a process does (crates/cgi/src/environment.rs).
use strict;
use warnings;

use Howdah::CGI::Environment;
use Test::More;

my %ENV_OF = (
    HTTP_HOST         => 'Shop.example:8080',
    QUERY_STRING      => '',
    REMOTE_ADDR       => '192.0.2.1',
    REMOTE_PORT       => '',
    REQUEST_METHOD    => 'GET',
    REQUEST_URI       => '/cgi-bin/a.cgi',
    SERVER_NAME       => '10.0.0.1',
    SERVER_PORT       => '8080',
    SERVER_PROTOCOL   => 'HTTP/2',
    'psgi.url_scheme' => 'http',
);

sub seen {
    my ($new, %env) = @_;
    my $info   = delete $env{info} // '';
    my $script = {name => '/cgi-bin/a.cgi', file => '/srv/cgi/a.cgi'};
    my $made   = Howdah::CGI::Environment->new(document_root => '/srv/www/', %$new);
    return $made->variables({%ENV_OF, %env}, $script, $info);
}

my @hidden = qw(HTTP_PROXY HTTP_CONTENT_LENGTH HTTP_CONTENT_TYPE HTTP_AUTHORIZATION HTTP_PROXY_AUTHORIZATION);
my %told   = map { $_ => 'told' } @hidden, 'HTTP_X_A', 'psgi.input', 'HTTP_x', 'HTTP_', 'HTT';

is_deeply [grep { /told/ } map { $_ // '' } values %{seen({}, %told)}], ['told'], 'one of all these is for scripts';
is seen({}, %told)->{HTTP_X_A}, 'told', '... which is a field as any other';
is_deeply [sort grep { seen({pass => [@hidden]}, %told)->{$_} } @hidden],
    [qw(HTTP_AUTHORIZATION HTTP_PROXY_AUTHORIZATION)], 'what is secret may be passed on';

my $plain = seen({});
is $plain->{SERVER_PROTOCOL}, 'HTTP/2.0', 'a protocol has two numbers';
is $plain->{SERVER_NAME}, 'shop.example', 'the host has no port';
is_deeply [grep { exists $plain->{$_} } qw(REMOTE_PORT PATH_INFO PATH_TRANSLATED HTTPS CONTENT_LENGTH)], [],
    'what is not there is not set';
is seen({}, info      => '/b')->{PATH_TRANSLATED}, '/srv/www/b', 'a path lies below the root';
is seen({}, HTTP_HOST => $_->[0])->{SERVER_NAME}, $_->[1], "of $_->[0]"
    for ['[::1]:80', '[::1]'], ['[::1]', '[::1]'], ['::1', '::1'], ['', '10.0.0.1'];

for my $case (
    ['GET', 'one+t%77o', 'one', 'two'], ['HEAD', 'a', 'a'], ['POST', 'a'], ['GET', 'a=b'], ['GET', ''],
    ['GET', 'a+%4',], ['GET', 'a%00'], ['GET', '%3Bid', '\\;id'],
    )
{
    my ($method, $query, @words) = @$case;
    my %env = (REQUEST_METHOD => $method, QUERY_STRING => $query);
    is_deeply [Howdah::CGI::Environment->arguments(\%env)], \@words, "arguments of $method ?$query";
}

{
    no warnings 'utf8';    # of names that the C library has in UTF-8
    local %ENV = (OLD => 1, SAME => 2, OTHER => 3, "\x{e9}" => 4, "\x{263a}" => 5);
    my %wanted = (SAME => 2, OTHER => 'new', NEW => 6, EMPTY => '', "\x{263b}" => 7);
    Howdah::XS::set_variables(\%wanted);
    is_deeply \%ENV, \%wanted, '%ENV becomes what is wanted, whatever the names';
    is `echo \$OLD \$SAME \$OTHER \$NEW`, "2 new 6\n", '... for programs, too';
}

done_testing;
