# An env that nobody has kept is filled anew for the next request. Whatever an application does with one, the next request
# finds what it would in a new one, and what the application has kept of the old one stays as it was.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

my $server = Howdah::Test::Server->start(options => ['--workers', 1, '--trusted-proxy', '127.0.0.1'], app => <<'PSGI');
use B ();
use Hash::Util ();
use Scalar::Util ();
use Symbol ();
use Tie::Hash ();
use Tie::Scalar ();

our $kept;
*log = \@Witness::log;
our @log;
{
    package Witness;
    sub new { my ($class, $name) = @_; bless {name => $name}, $class }
    sub DESTROY { push @Witness::log, $_[0]{name}; die "in passing\n" if $_[0]{name} eq 'dies' }
    package Blessed;
    sub DESTROY { push @Witness::log, 'env' }
    package Listed;
    sub DESTROY { push @Witness::log, 'list' }
}

my @strings = qw(REQUEST_METHOD REQUEST_URI PATH_INFO QUERY_STRING SERVER_PROTOCOL SERVER_NAME SERVER_PORT REMOTE_ADDR
    SCRIPT_NAME HTTP_HOST HTTP_X_ONE psgi.url_scheme);
my @flags = qw(psgi.multithread psgi.multiprocess psgi.run_once psgi.nonblocking psgi.streaming psgix.input.buffered);

# What lies with a handle.
sub beside {
    my $handle = shift;
    my ($hash, $list, $scalar, $code) = map { *{$handle}{$_} } qw(HASH ARRAY SCALAR CODE);
    return join ' ', $handle->can('new') ? 'classed' : '', %{$hash // {}}, @{$list // []}, $$scalar // '', $code ? 'code' : '', ref *{$handle}{IO};
}

# Each value with what perl holds it to be: a number, a string, text, a reference.
sub show {
    my $value = shift;
    my $what  = B::svref_2object($value)->FLAGS & (B::SVf_POK | B::SVf_IOK | B::SVf_NOK | B::SVf_ROK | B::SVf_READONLY | 0x20000000);
    my $is    = Scalar::Util::reftype($$value) // '';
    my $text  = ref $$value ? ref($$value) . ($is eq 'ARRAY' ? "(@{$$value})" : $is eq 'GLOB' ? beside($$value) : '') : $$value;
    return sprintf '%x %s', $what, $text;
}
sub keyed {
    my $env  = shift;
    my $seen = 0;
    $seen++ while each %$env;
    return "seen from the beginning: " . ($seen == keys %$env) . "\n", map { "$_ " . show(\$env->{$_}) . "\n" } grep { !/^(?:REMOTE_PORT|HTTP_X_REQUEST_ID)$/ } sort keys %$env;
}
sub body { my $in = shift->{'psgi.input'}; local $/; <$in> }

my %do = (
    nothing => sub { },
    assign  => sub { my $env = shift; $env->{$_} = 'other' for keys %$env },
    undef   => sub { my $env = shift; $env->{$_} = undef for keys %$env },
    freed   => sub { my $env = shift; undef $env->{$_} for keys %$env },
    empty   => sub { my $env = shift; %$env = () },
    void    => sub { my $env = shift; undef %$env },
    again   => sub { my $env = shift; my %copy = %$env; %$env = (); $env->{$_} = $copy{$_} for keys %copy },
    deleted => sub { my $env = shift; delete @$env{@strings[0 .. 5], 'psgi.input', 'psgix.io', 'psgi.errors'} },
    number  => sub { my $env = shift; no warnings; my $sum = 0; $sum += $env->{$_} for @strings, @flags },
    count   => sub { my $env = shift; no warnings; $env->{$_}++ for @strings, @flags },
    string  => sub { my $env = shift; my $all = join ',', %$env },
    flags   => sub { my $env = shift; $env->{$_} = !$env->{$_} for @flags },
    swapped => sub { my $env = shift; @$env{@strings} = reverse @$env{@strings}; @$env{@flags} = reverse @$env{@flags} },
    same    => sub { my $env = shift; $env->{$_} = "$env->{$_}" for @flags, @strings },
    wide    => sub { my $env = shift; $env->{$_} .= "\x{263a}" for @strings },
    text    => sub { my $env = shift; utf8::upgrade($env->{$_}) for @strings },
    texts   => sub { my $env = shift; utf8::upgrade($env->{$_}) for @strings; $kept = {map { $_ => $env->{$_} } @strings} },
    chopped => sub { my $env = shift; $env->{$_} =~ s/^.// for @strings },
    longer  => sub { my $env = shift; $env->{$_} .= 'x' x 5000 for @strings },
    inside  => sub { my $env = shift; substr($env->{$_}, 0, 1, 'X') for grep { length $env->{$_} } @strings, 'psgi.streaming' },
    turned  => sub { my $env = shift; tr/a-zA-Z0-9/b-zA-Z0-9a/ for @$env{@strings, 'psgi.streaming'} },
    bits    => sub { my $env = shift; vec($env->{$_}, 0, 8) = 88 for @strings, 'psgi.run_once' },
    matched => sub { my $env = shift; $env->{$_} =~ /./g for @strings, @flags },
    local   => sub { my $env = shift; local $env->{PATH_INFO} = '/x'; local @$env{@flags}; delete local $env->{REQUEST_URI} },
    refs    => sub { my $env = shift; $env->{$_} = [$_] for @strings, @flags },
    codes   => sub { my $env = shift; $env->{$_} = sub { $env } for 'psgi.version', 'psgi.errors'; delete @$env{'psgi.version', 'psgi.errors'} },
    mixed   => sub { my $env = shift; $env->{'psgi.input'} = $env->{'psgi.errors'}; $env->{'psgi.errors'} = $env->{'psgix.io'} },
    tied    => sub { my $env = shift; tie $env->{$_}, 'Tie::StdScalar', 'tied' for @strings },
    hash    => sub { my $env = shift; tie %$env, 'Tie::StdHash' },
    blessed => sub { bless $_[0], 'Blessed' },
    locked  => sub { Hash::Util::lock_hash(%{$_[0]}) },
    keys    => sub { Hash::Util::lock_keys(%{$_[0]}); delete $_[0]{PATH_INFO} },
    shut    => sub { Hash::Util::lock_keys(%{$_[0]}) },
    fixed   => sub { my $env = shift; Internals::SvREADONLY($env->{$_}, 1) for @strings },
    each    => sub { my $env = shift; each %$env for 1 .. 3; delete $env->{(each %$env)[0]} },
    copied  => sub { my $env = shift; $kept = {%$env} },
    value   => sub { my $env = shift; $kept = {map { $_ => $env->{$_} } @strings} },
    slots   => sub { my $env = shift; $kept = {map { $_ => \$env->{$_} } keys %$env} },
    whole   => sub { $kept = shift },
    closure => sub { my $env = shift; $kept = sub { $env } },
    circle  => sub { my $env = shift; $env->{circle} = $env; $kept = $env; Scalar::Util::weaken($kept) },
    weak    => sub { $kept = shift; Scalar::Util::weaken($kept) },
    weakly  => sub { my $env = shift; $env->{'psgi.input'} = $kept = ['mine']; Scalar::Util::weaken($env->{'psgi.input'}) },
    slot    => sub { my $env = shift; $kept = \$env->{PATH_INFO}; Scalar::Util::weaken($kept) },
    list    => sub { $kept = $_[0]{'psgix.cleanup.handlers'} },
    lists   => sub { push @{$_[0]{'psgix.cleanup.handlers'}}, sub { push @log, 'cleaned' } },
    named   => sub { bless $_[0]{'psgix.cleanup.handlers'}, 'Listed' },
    scalar  => sub { $_[0]{'psgix.cleanup.handlers'} = \my $nothing },
    later   => sub { push @$kept, sub { push @log, 'not mine' } },
    listed  => sub { my $list = $_[0]{'psgix.cleanup.handlers'}; $kept = $list; Scalar::Util::weaken($kept) },
    input   => sub { $kept = $_[0]{'psgi.input'} },
    closed  => sub { close $_[0]{'psgi.input'} },
    hashed  => sub { my $env = shift; ${*{$env->{$_}}}{secret} = 'mine' for 'psgi.input', 'psgix.io' },
    arrayed => sub { my $env = shift; @{*{$env->{$_}}} = 'mine' for 'psgi.input', 'psgix.io' },
    valued  => sub { my $env = shift; ${*{$env->{$_}}} = 'mine' for 'psgi.input', 'psgix.io' },
    coded   => sub { my $env = shift; no warnings; *{$env->{$_}} = sub { 'mine' } for 'psgi.input', 'psgix.io' },
    classed => sub { my $env = shift; bless $env->{$_}, 'Witness' for 'psgi.input', 'psgix.io' },
    inner   => sub { bless *{$_[0]{'psgi.input'}}{IO}, 'Other' },
    reader  => sub { $kept = $_[0]{'psgi.input'}; Scalar::Util::weaken($kept) },
    inmost  => sub { $kept = *{$_[0]{'psgi.input'}}{IO}; Scalar::Util::weaken($kept) },
    writer  => sub { $kept = $_[0]{'psgix.io'}; Scalar::Util::weaken($kept) },
    handle  => sub { my $env = shift; my $handle = $env->{'app.handle'} = Symbol::gensym(); $kept = \%{*$handle}; Scalar::Util::weaken($kept) },
    taken   => sub { my $io = $_[0]{'psgix.io'}; fileno $io; $kept = \%{*$io}; Scalar::Util::weaken($kept) },
    object  => sub { $_[0]{'app.object'} = Witness->new('object') },
    objects => sub { my $env = shift; $env->{$_} = Witness->new('one') for @strings },
    dies    => sub { $_[0]{'app.object'} = Witness->new('dies') },
    fails   => sub { $_[0]{'app.key'} = 1; die "on purpose\n" },
    route   => sub { $_[0]{'psgix.howdah.route'} = 'mine' },
    extra   => sub { my $env = shift; $env->{"app.$_"} = [$_] for 1 .. 40 },
    crowd   => sub { my $env = shift; $env->{"app.$_"} = [$_] for 1 .. 3000 },
    wide_key => sub { my $env = shift; $env->{"app.\x{263a}"} = 1; $env->{"caf\xe9"} = 2; my $u = "caf\xe9"; utf8::upgrade($u); $env->{$u}++ },
    child   => sub { my $env = shift; my $pid = fork // die; if (!$pid) { $env->{PATH_INFO} = 'x'; require POSIX; POSIX::_exit(0) } waitpid $pid, 0 },
    # a hash that has been larger has more room; a new one has not
    grown   => sub { my $env = shift; $env->{"app.$_"} = 1 for 1 .. 80; delete $env->{"app.$_"} for 1 .. 80 },
    large   => sub { my $env = shift; $env->{"app.$_"} = 1 for 1 .. 400; delete $env->{"app.$_"} for 1 .. 400 },
);
sub {
    my $env = shift;
    my ($name) = $env->{PATH_INFO} =~ m{^/(\w+)};
    return [200, [], [keyed($env), body($env) // '']] if $name eq 'show';
    return [200, [], [B::svref_2object($env)->MAX]] if $name eq 'room';
    return [200, [], [(sort { $b <=> $a } map { B::svref_2object(\$env->{$_})->LEN } grep { exists $env->{$_} } @strings)[0]]] if $name eq 'sizes';
    return [200, [], [$$]] if $name eq 'pid';
    return [200, [], [join ' ', splice @log]] if $name eq 'log';
    return [200, [], [!defined $kept ? 'gone' : ref $kept eq 'ARRAY' ? "@$kept" : ref $kept]] if $name eq 'kept';
    if ($name eq 'was') {
        my $was = ref $kept eq 'CODE' ? $kept->() : $kept;
        return [200, [], [map { my $v = $was->{$_}; "$_ " . (ref $v eq 'SCALAR' ? $$v : $v) . "\n" } @strings]];
    }
    undef $kept if $env->{QUERY_STRING} eq 'anew';
    $do{$name}->($env);
    return [200, [], [$name]];
};
PSGI

sub ask {
    my ($target, @more) = @_;
    my $body = @more && $more[-1] !~ /:/ ? pop @more : '';
    my $head = join "\r\n", "POST /$target HTTP/1.1", 'Host: x', 'Connection: close',
        'Content-Length: ' . length $body, @more;
    return Howdah::Test::Client->ask($server, "$head\r\n\r\n$body")->{body};
}
sub show { return ask('show/it?a=b', 'X-One: first', 'X-Two: second', @_) }

my $pid = ask('pid');
my $new = show('body');
like $new, qr/^HTTP_X_TWO \w+ second$/m, 'what a new env has';
like $new, qr/^psgi\.streaming \w+ 1$/m, '... and flags';
like $new, qr/body\z/, '... and a body';

my @names =
    qw(nothing assign undef freed empty void again deleted number count string flags swapped same wide text texts chopped longer
    inside turned bits matched local refs codes mixed tied hash blessed locked keys shut fixed each copied value slots whole closure
    circle weak weakly slot list lists named scalar listed input closed hashed arrayed valued coded classed inner reader inmost writer handle taken object objects dies fails route extra crowd wide_key child grown large);
for my $name (@names) {
    my $did = ask("$name/with/a/longer/path/?and=query", 'X-One: 1', 'X-Three: 3', 'a body');
    is $did, $name eq 'fails' ? "500 Internal Server Error\n" : $name, "'$name' does what it is to do";
    is show('body'), $new, "after '$name' an env is as a new one";
    is show('body'), $new, '... and the next one';
    is ask('extra'), 'extra', '... which takes what an application adds';
}

# What was kept is what it was, whatever came after it.
my $old = "REQUEST_URI /%s?anew\n";
for my $name (qw(copied value slots whole closure)) {
    ask("$name?anew", 'X-One: mine');
    show('body') for 1 .. 2;
    my $was = ask('was');
    like $was, qr/^REQUEST_URI \/$name\?anew$/m, "what '$name' has kept stays as it was";
    like $was, qr/^HTTP_X_ONE mine$/m, '... fields too';
}

# Nothing lives longer than its request.
for my $name (qw(weak slot listed reader inmost writer handle taken)) {
    ask("$name?anew");
    is ask('kept'), 'gone', "what '$name' refers to has gone with its request";
}
ask('log');
my @ends = (
    ['object', 'object', 'an object in the env is destroyed when its request ends'],
    ['dies', 'dies', '... also one whose destructor dies'],
    ['objects', join(' ', ('one') x 12), '... and those in place of strings'],
    ['blessed', 'env', '... and an env that is one itself'],
    ['named', 'list', '... and a list of cleanup handlers that is one'],
    ['lists', 'cleaned', 'a cleanup handler runs once'],
);
for my $case (@ends) {
    my ($name, $told, $what) = @$case;
    ask($name);
    is ask('log'), $told, $what;
}
ask('list?anew');
ask('later');
is ask('log'), '', 'a list that was kept is no other request\'s';
ask('weakly?anew');
is ask('kept'), 'mine', 'what an env refers to weakly stays';

# Fields come and go.
is show(map({ "X-Many-$_: $_" } 1 .. 90), 'body') =~ s/^HTTP_X_MANY_\d+ .*\n//gmr, $new,
    'many fields at a time are all there';
for my $turn (1 .. 4) {
    my $env = show(map { "X-Turn-$turn-$_: $_" } 1 .. 60);
    is scalar(() = $env =~ /^HTTP_X_TURN_${turn}_\d+ /mg), 60, "names that were never there before, $turn";
    unlike $env, qr/^HTTP_X_(?:MANY|TURN_(?!$turn))/m, '... without those of other requests';
}
my $long = 'X-' . 'Long-' x 40;
like show("${long}One: 1"), qr/^HTTP_X_(?:LONG_){40}ONE \w+ 1$/m, 'a field with a long name';
is show('body'), $new, '... and gone';
my $secure = ask('show', 'X-Forwarded-Proto: https');
like $secure, qr/^HTTPS \w+ on\n/m, 'a request by TLS';
like $secure, qr/^psgi\.url_scheme \w+ https$/m, '... has the scheme';
is show('body'), $new, '... and the next one without has not';

# That an env is filled anew at all.
ask('longer');
cmp_ok ask('sizes'), '<=', 1024, 'the memory of a long string is not kept';
my $room = ask('room');
ask('grown');
cmp_ok ask('room'), '>', $room, 'an env that has been larger still has its room';
ask('large');
is ask('room'), $room, '... but not when it was much larger';
is ask('pid'), $pid, 'all of it was done by one worker';
is $server->stop, 0, 'the server has stopped';
unlike $server->log, qr/panic|freed|uninitialized|restricted|signal handler/, 'perl has not complained';

subtest 'a client that sends ever new names of fields' => sub {
    my $operator = Howdah::Test::Operator->new;
    my $learning =
        Howdah::Test::Server->start(options => ['--workers', 1, $operator->options], app => 'sub { [200, [], []] }');
    my $client = Howdah::Test::Client->new($learning);
    for my $turn (1 .. 30) {
        $client->write(join '', map { "GET / HTTP/1.1\r\nHost: x\r\nX-Name-$turn-$_: 1\r\n\r\n" } 1 .. 100);
        $client->response for 1 .. 100;
    }
    my $pool = $operator->status->{pools}[0];
    is_deeply $pool->{growth}, [], 'leaves nothing of them behind';
    is $learning->stop, 0;
};

done_testing;
