# --share-cpu: front and worker share a processor while requests are quick and many, and neither longer nor with anybody else.
use strict;
use warnings;
use lib 't/lib';

use File::Temp ();
use Howdah::Test::Client;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use IO::Socket::INET;
use Test::More;
use Time::HiRes qw(sleep);

alarm 1000;    # one wait may last for 400 s, on a machine on which others want the processor all the time

my $APP = <<'PSGI';
sub {
    my ($path, $go) = @{$_[0]}{qw(PATH_INFO QUERY_STRING)};
    my $end = time + 600;
    if ($path eq '/long') { 1 while !-e $go && time < $end }
    return [200, [], ["$$ " . ($path eq '/child' ? `cat /proc/self/status` : 'quick')]];
};
PSGI

sub allowed {
    my ($text) = @_;
    return $text =~ /^Cpus_allowed_list:\s*(\S+)/m ? $1 : '';
}

sub mask {
    my ($pid) = @_;
    open my $in, '<', "/proc/$pid/status" or return '';
    return allowed(join '', <$in>);
}

my $home = mask($$);
plan skip_all => 'needs two processors' if $home !~ /[-,]/;
plan skip_all => 'needs times of the scheduler' if !-r '/proc/self/schedstat';

# Asks on some connections at a time, without a pause, until it is killed.
sub load {
    my ($server, $connections) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    my @sockets = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->port) || die "connect: $!" }
        1 .. $connections;
    alarm 1000;
    while (@sockets == grep { syswrite $_, "GET / HTTP/1.1\r\nHost: h\r\n\r\n" } @sockets) {
        last if grep { !sysread $_, my $answer, 65536 } @sockets;
    }
    require POSIX;
    POSIX::_exit(0);
}

sub ask {
    my ($server, $path) = @_;
    return Howdah::Test::Client->ask($server, "GET $path HTTP/1.0\r\n\r\n")->{body};
}

# A server as {server, operator}, with two workers unless the options say otherwise.
sub start {
    my (@options) = @_;
    my $operator  = Howdah::Test::Operator->new;
    my $server    = Howdah::Test::Server->start(app => $APP, options => ['--workers', 2, $operator->options, @options]);
    return {server => $server, operator => $operator};
}

sub with_load {
    my ($self, $connections, $code) = @_;
    my $load = load($self->{server}, $connections);
    $code->();
    kill KILL => $load;
    waitpid $load, 0;
    return;
}

# Each time that others want the processor the two are apart for twice as long, up to a minute: a busy machine takes some of those.
sub until_so { my ($self, $condition) = @_; return $self->{server}->wait_until($condition, 400) }
sub front { my $self = shift; return mask($self->{operator}->pid // return '') }
sub pool { my $self = shift; return $self->{operator}->status->{pools}[0] }

sub workers {
    my $self = shift;
    return grep { $_ } map { $_->{pid} } @{pool($self)->{workers}{list}};
}

# The workers that keep to the front's processor.
sub mates {
    my $self = shift;
    my $cpu  = front($self);
    return $cpu =~ /^\d+$/ ? grep { mask($_) eq $cpu } workers($self) : ();
}

# The one among them, as soon as there is one: a busy machine parts them at times.
sub mate {
    my $self = shift;
    my $mate;
    until_so($self, sub { ($mate) = mates($self) }) or die 'no worker keeps to the front\'s processor';
    return $mate;
}

# Under load, as soon as front and worker are together.
sub while_together {
    my ($options, $code) = @_;
    my $self = start(@$options);
    with_load(
        $self, 4,
        sub {
            ok(until_so($self, sub { mates($self) }), 'together') && $code->($self);
        }
    );
    return $self;
}

# The front is free again, and so is each worker at its next request.
sub all_are_free {
    my $self = shift;
    ok until_so($self, sub { front($self) eq $home }), 'the front is free in the end';
    ask($self->{server}, '/') for 1 .. 4;
    my $free = sub {
        my @all = workers($self);
        @all == 2 && !grep { mask($_) ne $home } @all;
    };
    return ok until_so($self, $free), 'and so are the workers';
}

subtest 'together under load, apart after it' => sub {
    my $self = while_together(
        [],
        sub {
            my $self       = shift;
            my $one_of_two = sub {
                (() = mates($self)) == 1 && 1 == grep { mask($_) eq $home } workers($self);
            };
            ok until_so($self, $one_of_two), 'the front and one worker keep to a processor, the other worker does not';
            is allowed(ask($self->{server}, '/child')), $home, 'nor what the application runs' for 1 .. 3;
        }
    );
    all_are_free($self);
};

subtest 'requests that take long' => sub {
    while_together(
        [],
        sub {
            my $self = shift;
            my $go   = $self->{server}->dir . '/go';
            my @long = map { Howdah::Test::Client->new($self->{server}) } 1, 2;
            $_->write("GET /long?$go HTTP/1.0\r\n\r\n") for @long;
            ok until_so($self, sub { front($self) eq $home }), 'part them before they end';
            $self->{server}->write_file('go', '');
            like $_->response->{body}, qr/quick/, '... and are answered' for @long;
            ok until_so($self, sub { mates($self) }), 'together again later';
        }
    );
};

# The worker that it was together with goes, by itself or not, and the next one comes in its place.
my @GO = (
    ['it is killed', [], sub { my ($self, $mate) = @_; kill KILL => $mate }],
    ['it has served enough', ['--max-requests', 20_000], sub { }],
    ['the application is reloaded', [], sub { $_[0]{server}->signal('HUP') }],
    [
        'it becomes the zygote', ['--refork', 40_000],
        sub {
            my $self = shift;
            ok until_so($self, sub { pool($self)->{reforks} }), 'a worker is the zygote of others';
        }
    ],
    [
        'the server replaces itself',
        [],
        sub {
            my $self = shift;
            my $old  = $self->{operator}->pid;
            $self->{server}->signal('USR2');
            my $is_new = sub { ($self->{operator}->pid // $old) != $old };
            ok until_so($self, $is_new), 'another process serves';
            $self->{load} = load($self->{server}, 4);    # the connections of the first load ended with the old one
        }
    ],
);
for my $case (@GO) {
    my ($what, $options, $do) = @$case;
    subtest "its worker goes: $what" => sub {
        my $self = while_together(
            $options,
            sub {
                my $self = shift;
                my $mate = mate($self);
                $do->($self, $mate);
                my $next = sub {
                    my @mates = mates($self);
                    @mates == 1 && $mates[0] != $mate;
                };
                ok until_so($self, $next), 'together with another one';
                ok until_so($self, sub { !mask($mate) }), 'the first is gone';
                if (my $load = $self->{load}) { kill KILL => $load; waitpid $load, 0 }
            }
        );
        all_are_free($self);
        my $refused = $self->{operator}->status->{requests}{by_class}{'5xx'};
        cmp_ok $refused, '<=', $what =~ /killed/ ? 1 : 0,
            'no request has noticed, but for that of the one that was killed';
    };
}

subtest 'workers that live for some milliseconds' => sub {
    while_together(
        ['--max-requests', 300],
        sub {
            my $self = shift;
            my $next = sub {
                my %mates = map {
                    sleep 0.005;
                    map { $_ => 1 } mates($self)
                } 1 .. 20;
                return keys %mates >= 3;
            };
            ok until_so($self, $next), 'hand the place on at once';
        }
    );
};

subtest 'with the application that is asked, of several' => sub {
    my $other = File::Temp->new(SUFFIX => '.psgi');
    print {$other} 'sub { [200, [], ["other"]] }';
    close $other or die $!;
    my $self = while_together(
        ['--mount', "/other=$other"],
        sub {
            my $self = shift;
            my $mate = mate($self);
            ok(
                (
                    grep { $_->{pid} == $mate }
                    map { @{$_->{workers}{list}} } grep { $_->{name} eq '/' } @{$self->{operator}->status->{pools}}
                ),
                'its worker'
            );
            is ask($self->{server}, '/other/'), 'other', 'the other one answers';
        }
    );
    ok until_so($self, sub { front($self) eq $home }), 'the front is free in the end';
};

subtest 'with two front threads, while the first has all connections' => sub {
    my $self = while_together(
        ['--front-threads', 2, '--spread-connections'],
        sub {
            my $self = shift;
            with_load(
                $self, 40,
                sub {
                    ok until_so($self, sub { front($self) eq $home }), 'apart once the second has some';
                    my @later = map { sleep 0.05; front($self) } 1 .. 20;
                    is_deeply [grep { $_ ne $home } @later], [], '... as long as it has them';
                }
            );
        }
    );
    all_are_free($self);
};

subtest 'not where nothing is won' => sub {
    for my $case (['--share-cpu', 'off'], []) {
        my $self        = start(@$case);
        my $connections = @$case ? 4 : 1;
        my $total       = sub { $self->{operator}->status->{requests}{total} };
        with_load(
            $self,
            $connections,
            sub {
                sleep 0.6;
                ok until_so($self, sub { $total->() > 600 }), "@$case, $connections at a time: many requests";
                is front($self), $home, '... and it is free';
            }
        );
    }
};

subtest 'where the server has one processor' => sub {
    plan skip_all => 'needs taskset' if !grep { -x "$_/taskset" } split /:/, $ENV{PATH};
    my ($one) = $home =~ /^(\d+)/;
    system "taskset -cp $one $$ > /dev/null";
    my $self = start();
    with_load($self, 4, sub { sleep 0.6; is front($self), $one, 'it keeps to it' });
    is_deeply [grep { mask($_) ne $one } workers($self)], [], 'and so do workers';
    system "taskset -cp $home $$ > /dev/null";
};

done_testing;
