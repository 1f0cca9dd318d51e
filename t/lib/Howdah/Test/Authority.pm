package Howdah::Test::Authority;

# An authority for certificates that takes every order and looks at nothing: for what a real one (Howdah::Test::Pebble) does
# not do. `instead` gets the last part of a path, and returns what is answered there, whole, in place of the usual.
#
#   my $authority = Howdah::Test::Authority->start(names => ['a.example'], instead => {chain => "HTTP/1.1 200 OK\r\n..."});
#   Howdah::Test::Server->start(options => ['--acme', 'a.example', $authority->options], ...);
#   $authority->asked('order');    # how often
use strict;
use warnings;

use File::Temp ();
use Howdah::Test::File qw(read_if_any);
use Howdah::Test::Ports qw(free_port);
use Howdah::Test::Tls;
use JSON::PP ();
use POSIX ();

sub start {
    my ($class, %wish) = @_;
    require IO::Socket::SSL;
    my $self = bless {%wish, owner => $$, dir => File::Temp->newdir('howdah-test-XXXXXX', TMPDIR => 1)}, $class;
    $self->{ca}   = Howdah::Test::Tls->new(ca => 1, subject         => '/CN=root of the authority');
    $self->{cert} = Howdah::Test::Tls->new(by => $self->{ca}, names => ['localhost', '127.0.0.1']);
    $self->{port} = free_port();
    my $listener =
        IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $self->{port}, Listen => 16, ReuseAddr => 1)
        or die "cannot listen: $@";
    defined($self->{pid} = fork) or die "cannot fork: $!";
    return $self if $self->{pid};
    local $SIG{CHLD} = 'IGNORE';

    while (my $client = $listener->accept) {
        next if fork;
        $self->_serve($client);
        POSIX::_exit(0);
    }
    POSIX::_exit(0);
}

sub options {
    my $self = shift;
    return ('--acme-directory', "https://localhost:$self->{port}/dir", '--acme-ca', $self->{ca}->cert);
}

sub asked {
    my ($self, $what) = @_;
    return scalar grep { $_ eq $what } split /\n/, read_if_any("$self->{dir}/asked");
}

sub _serve {
    my ($self, $client) = @_;
    alarm 120;
    my @pair = (SSL_cert_file => $self->{cert}->cert, SSL_key_file => $self->{cert}->key);
    IO::Socket::SSL->start_SSL($client, SSL_server => 1, @pair) or return;
    while (my $head = do { local $/ = "\r\n\r\n"; <$client> }) {
        my ($what)   = $head =~ m{^\S+ /(\S*)} or return;
        my ($length) = $head =~ /^content-length: *(\d+)/im;
        read $client, my $body, $length if $length;
        open my $out, '>>', "$self->{dir}/asked" or die $!;
        print {$out} "$what\n";
        close $out or die $!;
        my $instead = $self->{instead}{$what};
        return _say($client, $instead) if defined $instead;
        my ($status, $content) = $self->_answer($what);
        my $fields = "Replay-Nonce: aaaa\r\nLocation: https://localhost:$self->{port}/$what-1\r\n";
        my $sized  = 'Content-Length: ' . length($content);
        print {$client} "HTTP/1.1 $status x\r\n$fields$sized\r\n\r\n", $head =~ /^HEAD/ ? '' : $content;
    }
    return;
}

# Code says it itself, as long as it likes.
sub _say {
    my ($client, $what) = @_;
    return ref $what ? $what->($client) : print {$client} $what;
}

sub _answer {
    my ($self, $what) = @_;
    my $url   = sub { "https://localhost:$self->{port}/" . shift };
    my @all   = @{$self->{names}};
    my $order = {
        authorizations => [map { $url->("name-$_") } @all],
        identifiers    => [map { {type => 'dns', value => $_} } @all],
        finalize       => $url->('finalize')
    };
    my %answer = (
        dir       => [200, {newNonce => $url->('nonce'), newAccount => $url->('account'), newOrder => $url->('order')}],
        nonce     => [200, {}],
        account   => [201, {status => 'valid'}],
        order     => [201, {%$order, status => 'ready'}],
        'order-1' =>
            [200, {%$order, status => $self->asked('finalize') ? 'valid' : 'ready', certificate => $url->('chain')}],
        finalize => [200, {%$order, status => 'valid', certificate => $url->('chain')}],
        map { ("name-$_" => [200, {identifier => {type => 'dns', value => $_}, status => 'valid', challenges => []}]) }
            @all
    );
    my ($status, $content) = @{$answer{$what} // [404, {}]};
    return ($status, JSON::PP::encode_json($content));
}

sub DESTROY {
    my $self = shift;
    return if $self->{owner} != $$;
    local ($@, $!, $?);
    kill TERM => $self->{pid};
    waitpid $self->{pid}, 0;
    return;
}

1;
